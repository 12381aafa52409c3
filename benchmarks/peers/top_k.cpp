// Top-k probabilities as "Optimizing multi-top-k queries" computes them (section 3): for every
// tuple from scratch, rules compressed as seen from it, then the recursion (2) over counts below
// k. Also its dynamic program, Algorithm 1. Plain codings, with loops the compiler vectorises.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

extern "C" {

// Pr_k of n tuples; rule[i] in [0, rules). With `cut`, a tuple with (mu - k + 1)^2 > 80 mu, mu the
// expected number above it, ends the work: neither it nor those below can be among the top k.
void top_k(const double* score, const double* prob, const int64_t* rule, int64_t n, int64_t rules,
           int64_t k, int64_t cut, double* out) {
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return score[a] > score[b]; });
    std::fill(out, out + n, 0.0);
    // Rules with members above, in order of their first; each with the mass of these members.
    std::vector<double> mass;
    std::vector<int64_t> owner, place(rules, -1);
    // Count j lies at k - 1 - j, so that the update in place reads ahead of what it writes.
    std::vector<double> law(k + 1);
    double mu = 0;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t item = order[i];
        const double spare = mu - k + 1;
        if (cut && spare > 0 && spare * spare > 80 * mu) return;
        std::fill(law.begin(), law.end(), 0.0);
        double* at = law.data();
        at[k - 1] = 1.0;
        int64_t seen = 0;
        for (size_t r = 0; r < mass.size(); ++r) {
            if (owner[r] == rule[item]) continue;
            const double x = mass[r], y = 1.0 - x;
            ++seen;
            for (int64_t j = seen < k ? k - 1 - seen : 0; j < k; ++j) at[j] = y * at[j] + x * at[j + 1];
        }
        double below = 0;
        for (int64_t j = 0; j < k; ++j) below += at[j];
        out[item] = prob[item] * below;
        int64_t& p = place[rule[item]];
        if (p < 0) {
            p = static_cast<int64_t>(mass.size());
            mass.push_back(0.0);
            owner.push_back(rule[item]);
        }
        mass[p] = std::min(mass[p] + prob[item], 1.0);
        mu += prob[item];
    }
}

// Algorithm 1: the least cost per unit of time, with the times of the last runs kept in `last`.
double dynamic_program(const int64_t* f, const int64_t* k, int64_t g) {
    const int64_t size = f[g - 1];
    std::vector<std::vector<int64_t>> cost(g, std::vector<int64_t>(size)), last = cost;
    for (int64_t t = 0; t < size; ++t) {
        cost[0][t] = t / f[0] * k[0];
        last[0][t] = t < f[0] ? -1 : t / f[0] * f[0];
    }
    for (int64_t i = 1; i < g; ++i) {
        for (int64_t t = 0; t < std::min(f[i], size); ++t) {
            cost[i][t] = cost[i - 1][t];
            last[i][t] = -1;
        }
        for (int64_t t = f[i]; t < size; ++t) {
            int64_t best = std::numeric_limits<int64_t>::max();
            for (int64_t at = t - f[i] + 1; at <= t; ++at) {
                const int64_t total = cost[i][at - 1] + k[i] + cost[i][t - at];
                if (total < best) {
                    best = total;
                    last[i][t] = at;
                }
            }
            cost[i][t] = best;
        }
    }
    double best = std::numeric_limits<double>::infinity();
    for (int64_t t = 1; t <= size; ++t)
        best = std::min(best, static_cast<double>(cost[g - 1][t - 1] + k[g - 1]) / t);
    return best;
}
}
