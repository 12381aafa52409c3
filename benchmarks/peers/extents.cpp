// Aggregates over time extents (C, section 6), each extent computed anew from its tuples. Certain
// value, existence e. Rows in order of time; extents end at (j + 1) * slide.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

// Calls work(first, end, place) for every extent that holds a row and ends in time.
template <typename Work>
int64_t each_extent(const int64_t* time, int64_t n, int64_t length, int64_t slide, Work work) {
    if (n == 0) return 0;
    int64_t low = 0, high = 0, found = 0;
    for (int64_t j = time[0] / slide + 1; j * slide <= time[n - 1]; ++j) {
        while (low < n && time[low] < j * slide - length) ++low;
        while (high < n && time[high] < j * slide) ++high;
        if (high > low) work(low, high, found++);
    }
    return found;
}

}  // namespace

extern "C" {

int64_t sum_extents(const int64_t* time, const double* e, const double* x, int64_t n,
                    int64_t length, int64_t slide, double* mean, double* sd) {
    return each_extent(time, n, length, slide, [&](int64_t low, int64_t high, int64_t at) {
        double first = 0.0, second = 0.0;
        for (int64_t i = low; i < high; ++i) {
            first += e[i] * x[i];
            second += e[i] * (1.0 - e[i]) * x[i] * x[i];
        }
        mean[at] = first;
        sd[at] = std::sqrt(second);
    });
}

// The recursion over (count; probability, first, second moment of the sum), values relative to the
// extent's first one.
int64_t avg_extents(const int64_t* time, const double* e, const double* x, int64_t n,
                    int64_t length, int64_t slide, double* mean, double* sd) {
    std::vector<double> law, first, second;
    return each_extent(time, n, length, slide, [&](int64_t low, int64_t high, int64_t at) {
        const int64_t m = high - low;
        law.assign(m + 1, 0.0), first.assign(m + 1, 0.0), second.assign(m + 1, 0.0);
        law[0] = 1.0;
        for (int64_t i = low; i < high; ++i) {
            const double p = e[i], q = 1.0 - p, v = x[i] - x[low];
            for (int64_t k = i - low + 1; k > 0; --k) {
                second[k] = q * second[k] +
                            p * (second[k - 1] + v * (2.0 * first[k - 1] + v * law[k - 1]));
                first[k] = q * first[k] + p * (first[k - 1] + v * law[k - 1]);
                law[k] = q * law[k] + p * law[k - 1];
            }
            law[0] *= q;
        }
        double a = 0.0, b = 0.0;
        for (int64_t k = 1; k <= m; ++k) a += first[k] / k, b += second[k] / (double(k) * k);
        const double there = 1.0 - law[0];
        mean[at] = x[low] + a / there;
        sd[at] = std::sqrt(b / there - a / there * (a / there));
    });
}

int64_t max_extents(const int64_t* time, const double* e, const double* x, int64_t n,
                    int64_t length, int64_t slide, double* mean, double* sd) {
    std::vector<std::pair<double, double>> sorted;
    return each_extent(time, n, length, slide, [&](int64_t low, int64_t high, int64_t at) {
        sorted.clear();
        for (int64_t i = low; i < high; ++i) sorted.push_back({-x[i], e[i]});
        std::sort(sorted.begin(), sorted.end());
        double left = 1.0, first = 0.0, second = 0.0;
        const double centre = -sorted[0].first;
        for (const auto& [minus, p] : sorted) {
            const double v = -minus - centre;
            first += left * p * v, second += left * p * v * v;
            left *= 1.0 - p;
        }
        const double there = 1.0 - left;
        mean[at] = centre + first / there;
        sd[at] = std::sqrt(second / there - first / there * (first / there));
    });
}

}  // extern "C"
