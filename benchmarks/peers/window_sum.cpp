// Mean and variance of the sum, or of the average given that there is one, of the w newest existing
// tuples of a count window, recomputed at every arrival by the recursion over (count; probability, first and second moment), newest tuple
// first. Plain, with the loops in the order that lets the compiler vectorise them.
#include <cstdint>
#include <vector>

// p[i], v[i]: existence and value of tuple i; starts[i]: oldest tuple held after arrival i.
// out[2 (i - begin)], out[2 (i - begin) + 1]: mean and variance after arrivals begin ... n - 1.
static void recompute(const double* p, const double* v, const int64_t* starts, int64_t begin,
                      int64_t n, int64_t w, bool average, double* out) {
    // Count k lies at w - k, so that the updates in place read ahead of what they write.
    std::vector<double> law(w + 2), first(w + 2), second(w + 2);
    double *l = law.data(), *m = first.data(), *s = second.data();
    for (int64_t i = begin; i < n; ++i) {
        law.assign(w + 2, 0.0);
        first.assign(w + 2, 0.0);
        second.assign(w + 2, 0.0);
        l[w] = 1.0;
        for (int64_t j = i; j >= starts[i]; --j) {
            const double x = p[j], y = 1.0 - x, mean = x * v[j], square = mean * v[j];
            const int64_t newer = i - j, least = newer + 1 < w ? w - newer - 1 : 1;
            s[0] += x * s[1] + 2.0 * mean * m[1] + square * l[1];
            m[0] += x * m[1] + mean * l[1];
            l[0] += x * l[1];
            for (int64_t k = least; k <= w; ++k) {
                s[k] = y * s[k] + x * s[k + 1] + 2.0 * mean * m[k + 1] + square * l[k + 1];
                m[k] = y * m[k] + x * m[k + 1] + mean * l[k + 1];
                l[k] = y * l[k] + x * l[k + 1];
            }
        }
        double mean = 0.0, square = 0.0, exists = 0.0;  // a count of 0 adds nothing to a sum
        for (int64_t k = 0; k < w; ++k) {
            const double share = average ? 1.0 / (w - k) : 1.0;
            mean += m[k] * share;
            square += s[k] * share * share;
            exists += l[k];
        }
        if (average) {
            mean /= exists;
            square /= exists;
        }
        out[2 * (i - begin)] = mean;
        out[2 * (i - begin) + 1] = square - mean * mean;
    }
}

extern "C" {

void window_sums(const double* p, const double* v, const int64_t* starts, int64_t begin, int64_t n,
                 int64_t w, double* out) {
    recompute(p, v, starts, begin, n, w, false, out);
}

void window_averages(const double* p, const double* v, const int64_t* starts, int64_t begin,
                     int64_t n, int64_t w, double* out) {
    recompute(p, v, starts, begin, n, w, true, out);
}
}
