// Law of the largest value of the w newest existing tuples of a count window, recomputed at every
// arrival: values from the largest on, for each the recursion over the count of existing tuples
// that counts worlds in which no inside tuple has a value so large, newest tuple first. Plain,
// with the loops in the order that lets the compiler vectorise them.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

extern "C" {

// p[i], v[i]: existence and value of tuple i; starts[i]: oldest tuple held after arrival i.
// out[2 (i - begin)], out[2 (i - begin) + 1]: mean and variance after arrivals begin ... n - 1.
void window_maxima(const double* p, const double* v, const int64_t* starts, int64_t begin,
                   int64_t n, int64_t w, double* out) {
    std::vector<double> law(w + 2);
    std::vector<int64_t> order;
    std::vector<char> passed;
    double* l = law.data();
    for (int64_t i = begin; i < n; ++i) {
        const int64_t first = starts[i];
        order.resize(i + 1 - first);
        std::iota(order.begin(), order.end(), first);
        std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return v[a] > v[b]; });
        passed.assign(order.size(), 0);
        double before = 1.0, total = 0.0, mean = 0.0, square = 0.0;
        const double centre = v[order[0]];
        for (int64_t largest : order) {
            passed[largest - first] = 1;
            // Count k lies at w - k; l[0] gathers the worlds whose w newest are all there.
            law.assign(w + 2, 0.0);
            l[w] = 1.0;
            for (int64_t j = i; j >= first; --j) {
                const double x = passed[j - first] ? 0.0 : p[j], y = 1.0 - p[j];
                const int64_t newer = i - j, least = newer + 1 < w ? w - newer - 1 : 1;
                l[0] += x * l[1];
                for (int64_t k = least; k <= w; ++k) l[k] = y * l[k] + x * l[k + 1];
            }
            const double none = std::accumulate(law.begin(), law.end(), 0.0);
            const double chance = before - none, away = v[largest] - centre;
            total += chance;
            mean += chance * away;
            square += chance * away * away;
            before = none;
            if (none < 1e-17) break;
        }
        mean /= total;
        out[2 * (i - begin)] = centre + mean;
        out[2 * (i - begin) + 1] = square / total - mean * mean;
    }
}
}
