// Uncertain count windows as the paper "Uncertain sliding windows" writes them: Algorithm 1 with
// the exact recursion RF1 (section 5.1) and with the refined normal approximation (17).
// Plain codings, with the loops in the order that lets the compiler vectorise them.
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

// Pr(at least w of p[0..n) exist). Count k lies at w - 1 - k, so that the update in place reads
// ahead of what it writes and becomes SIMD.
double rf1_tail(const double* p, int64_t n, int64_t w, std::vector<double>& law) {
    if (n < w) return 0.0;
    law.assign(w + 1, 0.0);
    law[w - 1] = 1.0;
    double* at = law.data();
    for (int64_t j = 0; j < n; ++j) {
        const double x = p[j], y = 1.0 - x;
        const int64_t first = j + 1 < w ? w - 2 - j : 0;
        for (int64_t k = first; k < w; ++k) at[k] = y * at[k] + x * at[k + 1];
    }
    double below = 0.0;
    for (int64_t k = 0; k < w; ++k) below += at[k];
    return 1.0 - below;
}

}  // namespace

extern "C" {

// Both: the window holds p[first..begin) at the start (the caller's warm-up), p[begin..n) arrive,
// and starts[i] is the oldest tuple held after arrival i.

// Every test runs the recursion over all tuples but the oldest.
void rf1_window(const double* p, int64_t n, int64_t w, double a, int64_t first, int64_t begin,
                int64_t* starts) {
    std::vector<double> law;
    int64_t oldest = first;
    for (int64_t i = begin; i < n; ++i) {
        while (oldest < i + 1 && rf1_tail(p + oldest + 1, i - oldest, w, law) >= a) ++oldest;
        starts[i] = oldest;
    }
}

// The same with running sums and the refined normal law of A, (17).
void refined_normal_window(const double* p, int64_t n, int64_t w, double a, int64_t first,
                           int64_t begin, int64_t* starts) {
    const double root_half = std::sqrt(0.5), density_scale = 1.0 / std::sqrt(2.0 * M_PI);
    double mu = 0.0, variance = 0.0, skew = 0.0;
    int64_t oldest = first;
    for (int64_t i = first; i < n; ++i) {
        const double x = p[i], spread = x * (1.0 - x);
        mu += x;
        variance += spread;
        skew += spread * (1.0 - 2.0 * x);
        while (i >= begin && i - oldest >= w) {
            const double o = p[oldest], o_spread = o * (1.0 - o);
            const double m = mu - o, v = variance - o_spread, s = skew - o_spread * (1.0 - 2.0 * o);
            double tail;
            if (v <= 0.0) {
                tail = m >= w ? 1.0 : 0.0;
            } else {
                const double sigma = std::sqrt(v);
                const double z = (w - 0.5 - m) / sigma;
                const double below = 0.5 * std::erfc(-z * root_half) +
                                     s / (v * sigma) * (1.0 - z * z) *
                                         (density_scale * std::exp(-0.5 * z * z)) / 6.0;
                tail = 1.0 - (below < 0.0 ? 0.0 : below > 1.0 ? 1.0 : below);
            }
            if (tail < a) break;
            mu = m;
            variance = v;
            skew = s;
            ++oldest;
        }
        starts[i] = oldest;
    }
}
}
