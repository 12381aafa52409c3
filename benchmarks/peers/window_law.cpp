// Quantiles of the law of an aggregate over the w newest existing tuples of a count window,
// recomputed at every arrival: from sampled worlds, each of whose draws is a function of (seed,
// tuple, world), and for the count from the recursion over it. Plain, with the loops in the order
// that lets the compiler vectorise them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

static const uint64_t GOLDEN = 0x9E3779B97F4A7C15ull;

static inline uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static inline double uniform(uint64_t hashed, uint64_t world) {
    uint64_t z = mixed(hashed + world * GOLDEN) + world * GOLDEN;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    return double((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

// Quantiles of equally likely samples.
static void quantiles(std::vector<double>& sample, const double* q, int64_t nq, double* out) {
    std::sort(sample.begin(), sample.end());
    for (int64_t k = 0; k < nq; ++k) {
        const int64_t place = int64_t(std::ceil((q[k] - 1e-12) * sample.size()));
        out[k] = sample[std::max<int64_t>(place, 1) - 1];
    }
}

static std::vector<uint64_t> hashes(int64_t n, uint64_t seed) {
    std::vector<uint64_t> of(n);
    for (int64_t i = 0; i < n; ++i) of[i] = mixed(seed * GOLDEN + uint64_t(i));
    return of;
}

static void totals(const double* p, const double* v, const int64_t* starts, int64_t begin,
                   int64_t n, int64_t w, uint64_t seed, int64_t samples, const double* q,
                   int64_t nq, bool average, double* out) {
    const std::vector<uint64_t> hashed = hashes(n, seed);
    std::vector<double> total(samples), sample;
    std::vector<int64_t> count(samples);
    for (int64_t i = begin; i < n; ++i) {
        total.assign(samples, 0.0);
        count.assign(samples, 0);
        for (int64_t j = i; j >= starts[i]; --j) {
            const double x = p[j], value = v[j];
            const uint64_t h = hashed[j];
            for (int64_t s = 0; s < samples; ++s) {
                const bool inside = uniform(h, s) < x && count[s] < w;
                count[s] += inside;
                total[s] += inside ? value : 0.0;
            }
        }
        sample.clear();
        for (int64_t s = 0; s < samples; ++s) {
            if (!average)
                sample.push_back(total[s]);
            else if (count[s] > 0)
                sample.push_back(total[s] / count[s]);
        }
        quantiles(sample, q, nq, out + nq * (i - begin));
    }
}

extern "C" {

// p[i], v[i]: existence and value of tuple i; starts[i]: oldest tuple held after arrival i.
// out[nq (i - begin) + k]: the share q[k] of the law after arrivals begin ... n - 1.
void sum_laws(const double* p, const double* v, const int64_t* starts, int64_t begin, int64_t n,
              int64_t w, uint64_t seed, int64_t samples, const double* q, int64_t nq,
              double* out) {
    totals(p, v, starts, begin, n, w, seed, samples, q, nq, false, out);
}

void average_laws(const double* p, const double* v, const int64_t* starts, int64_t begin,
                  int64_t n, int64_t w, uint64_t seed, int64_t samples, const double* q,
                  int64_t nq, double* out) {
    totals(p, v, starts, begin, n, w, seed, samples, q, nq, true, out);
}

// Of the median: with k values inside, the one of rank ceil(k / 2).
void median_laws(const double* p, const double* v, const int64_t* starts, int64_t begin, int64_t n,
                 int64_t w, uint64_t seed, int64_t samples, const double* q, int64_t nq,
                 double* out) {
    const std::vector<uint64_t> hashed = hashes(n, seed);
    std::vector<double> inside, sample;
    std::vector<char> exists;
    for (int64_t i = begin; i < n; ++i) {
        const int64_t first = starts[i], held = i + 1 - first;
        exists.resize(held);
        sample.clear();
        for (int64_t s = 0; s < samples; ++s) {
            for (int64_t j = 0; j < held; ++j)
                exists[j] = uniform(hashed[first + j], s) < p[first + j];
            inside.clear();
            for (int64_t j = held; j-- > 0 && int64_t(inside.size()) < w;)
                if (exists[j]) inside.push_back(v[first + j]);
            if (inside.empty()) continue;
            auto middle = inside.begin() + (inside.size() + 1) / 2 - 1;
            std::nth_element(inside.begin(), middle, inside.end());
            sample.push_back(*middle);
        }
        quantiles(sample, q, nq, out + nq * (i - begin));
    }
}

void count_laws(const double* p, const double*, const int64_t* starts, int64_t begin, int64_t n,
                int64_t w, uint64_t, int64_t, const double* q, int64_t nq, double* out) {
    // Count k lies at w - k, so that the updates in place read ahead of what they write.
    std::vector<double> law(w + 2);
    double* l = law.data();
    for (int64_t i = begin; i < n; ++i) {
        law.assign(w + 2, 0.0);
        l[w] = 1.0;
        for (int64_t j = i; j >= starts[i]; --j) {
            const double x = p[j], y = 1.0 - x;
            const int64_t newer = i - j, least = newer + 1 < w ? w - newer - 1 : 1;
            l[0] += x * l[1];
            for (int64_t k = least; k <= w; ++k) l[k] = y * l[k] + x * l[k + 1];
        }
        for (int64_t k = 0; k < nq; ++k) {
            int64_t count = 0;
            double below = l[w];
            while (count < w && below < q[k] - 1e-12) below += l[w - ++count];
            out[nq * (i - begin) + k] = double(count);
        }
    }
}
}
