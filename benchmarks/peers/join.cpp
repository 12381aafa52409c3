// The similarity joins of papers A and B, straightforwardly: nested loops, Grid + OP + SP, and
// sorted samples. All tuples exist, windows hold the `rows` newest tuples of a side (USJ).
//
// Input, in arrival order: side[n], offsets[n + 1], prob[m], points[m * d] (row by row).
// Output: arrival, held (places in the input) and Pr(match) of every answer; returns how many.
// Arrivals before `begin` enter their windows without being matched (nested loops could not be
// timed on full windows otherwise). With `samples` the matching pairs of samples are collected too, as they are with ours.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

namespace {

struct Stream {
    const uint8_t* side;
    const int64_t* offsets;
    const double* prob;
    const double* points;
    int d;
    double within, threshold;
    int64_t rows, begin;
};

struct Answers {
    int64_t* arrival;
    int64_t* held;
    double* probability;
    int64_t count = 0;
    bool samples;
    struct Pair {
        double prob;
        int32_t left, right;
    };
    std::vector<Pair> pairs;
};

// Distances of one dimension need no root; the others compare the root itself, as defined.
inline bool near(const Stream& s, const double* x, const double* y) {
    if (s.d == 1) return std::fabs(x[0] - y[0]) <= s.within;
    double squared = 0;
    for (int a = 0; a < s.d; ++a) squared += (x[a] - y[a]) * (x[a] - y[a]);
    return std::sqrt(squared) <= s.within;
}

double match(const Stream& s, int64_t u, int64_t v) {
    double total = 0;
    for (int64_t k = s.offsets[u]; k < s.offsets[u + 1]; ++k)
        for (int64_t l = s.offsets[v]; l < s.offsets[v + 1]; ++l)
            if (near(s, s.points + k * s.d, s.points + l * s.d)) total += s.prob[k] * s.prob[l];
    return total;
}

void report(const Stream& s, Answers& out, int64_t u, int64_t v, double total) {
    out.arrival[out.count] = u;
    out.held[out.count] = v;
    out.probability[out.count++] = total;
    if (!out.samples) return;
    for (int64_t k = s.offsets[u]; k < s.offsets[u + 1]; ++k)
        for (int64_t l = s.offsets[v]; l < s.offsets[v + 1]; ++l)
            if (near(s, s.points + k * s.d, s.points + l * s.d)) {
                int32_t a = k - s.offsets[u], b = l - s.offsets[v];
                if (s.side[u]) std::swap(a, b);
                out.pairs.push_back({s.prob[k] * s.prob[l], a, b});
            }
}

void nested(const Stream& s, int64_t n, Answers& out) {
    std::deque<int64_t> window[2];
    for (int64_t u = 0; u < n; ++u) {
        for (int64_t v : window[1 - s.side[u]]) {
            if (u < s.begin) break;
            double total = match(s, u, v);
            if (total >= s.threshold) report(s, out, u, v, total);
        }
        auto& own = window[s.side[u]];
        own.push_back(u);
        if ((int64_t)own.size() > s.rows) own.pop_front();
    }
}

// The same loops for SIMD: coordinates in columns padded to 8, eight sums side by side.
typedef double Lanes __attribute__((vector_size(64)));

template <int d>
void nested_simd(const Stream& s, int64_t n, Answers& out) {
    constexpr int lanes = 8;
    std::vector<std::vector<double>> columns(n);  // prob, then each coordinate
    std::deque<int64_t> window[2];
    const double limit = s.within * s.within;
    for (int64_t u = 0; u < n; ++u) {
        const int64_t count = s.offsets[u + 1] - s.offsets[u];
        const int64_t length = (count + lanes - 1) / lanes * lanes;
        columns[u].assign(length * (d + 1), NAN);
        for (int64_t k = 0; k < length; ++k)
            columns[u][k] = k < count ? s.prob[s.offsets[u] + k] : 0;
        for (int64_t k = 0; k < count; ++k)
            for (int a = 0; a < d; ++a)
                columns[u][(a + 1) * length + k] = s.points[(s.offsets[u] + k) * d + a];
        for (int64_t v : window[1 - s.side[u]]) {
            if (u < s.begin) break;
            const double* y = columns[v].data();
            const int64_t other = columns[v].size() / (d + 1);
            double total = 0;
            for (int64_t l = 0; l < other; l += lanes) {
                Lanes near = {}, columns_of[d];
                for (int a = 0; a < d; ++a)
                    std::memcpy(&columns_of[a], y + (a + 1) * other + l, sizeof(Lanes));
                for (int64_t k = s.offsets[u]; k < s.offsets[u + 1]; ++k) {
                    Lanes squared = {};
                    for (int a = 0; a < d; ++a) {
                        Lanes difference = s.points[k * d + a] - columns_of[a];
                        squared += difference * difference;
                    }
                    near += squared <= limit ? s.prob[k] + Lanes{} : Lanes{};
                }
                for (int i = 0; i < lanes; ++i) total += near[i] * y[l + i];
            }
            if (total >= s.threshold) report(s, out, u, v, total);
        }
        auto& own = window[s.side[u]];
        own.push_back(u);
        if ((int64_t)own.size() > s.rows) {
            columns[own.front()] = {};
            own.pop_front();
        }
    }
}

// Object: centroid, its samples' distances to it in ascending order, and the masses within them.
struct Object {
    std::vector<double> centre, radius, mass;
};

Object object(const Stream& s, int64_t u) {
    Object o;
    o.centre.assign(s.d, 0);
    std::vector<std::pair<double, double>> order;
    double whole = 0;
    for (int64_t k = s.offsets[u]; k < s.offsets[u + 1]; ++k) {
        whole += s.prob[k];
        for (int a = 0; a < s.d; ++a) o.centre[a] += s.prob[k] * s.points[k * s.d + a];
    }
    for (double& c : o.centre) c /= whole;
    for (int64_t k = s.offsets[u]; k < s.offsets[u + 1]; ++k) {
        double squared = 0;
        for (int a = 0; a < s.d; ++a) {
            double difference = s.points[k * s.d + a] - o.centre[a];
            squared += difference * difference;
        }
        order.push_back({std::sqrt(squared), s.prob[k]});
    }
    std::sort(order.begin(), order.end());
    double mass = 0;
    for (auto& [r, p] : order) {
        o.radius.push_back(r);
        o.mass.push_back(mass += p);
    }
    return o;
}

// Lemma 5.2, with the largest sufficient ball of Y for each ball of X (Lemma 5.4).
bool sample_level_prunes(const Object& x, const Object& y, double distance, double within,
                         double threshold) {
    int64_t j = (int64_t)y.radius.size() - 1;
    const double whole = x.mass.back() * y.mass.back();
    for (size_t i = 0; i < x.radius.size(); ++i) {
        while (j >= 0 && distance - x.radius[i] - y.radius[j] <= within) --j;
        if (j < 0) return false;
        if (whole - x.mass[i] * y.mass[j] < threshold * (1 - 1e-9)) return true;
    }
    return false;
}

struct Index {
    std::unordered_map<int64_t, std::vector<int64_t>> cells;
    std::deque<int64_t> window;
    std::deque<std::pair<int64_t, double>> largest;  // r_max: falling radii
};

int64_t cell(const int64_t* c, int d) {
    int64_t h = 0;
    for (int a = 0; a < d; ++a) h = h * 2097169 + c[a];
    return h;
}

int64_t cell_of(const Object& o, int d, double side) {
    int64_t c[16];
    for (int a = 0; a < d; ++a) c[a] = (int64_t)std::floor(o.centre[a] / side);
    return cell(c, d);
}

void grid(const Stream& s, int64_t n, double side, Answers& out) {
    std::vector<Object> objects(n);
    Index index[2];
    std::vector<int64_t> candidates;
    for (int64_t u = 0; u < n; ++u) {
        objects[u] = object(s, u);
        const Object& x = objects[u];
        Index& other = index[1 - s.side[u]];
        candidates.clear();
        if (u >= s.begin && !other.window.empty()) {
            const double reach = s.within + x.radius.back() + other.largest.front().second;
            int64_t low[16], high[16], c[16];
            for (int a = 0; a < s.d; ++a) {
                c[a] = low[a] = (int64_t)std::floor((x.centre[a] - reach) / side);
                high[a] = (int64_t)std::floor((x.centre[a] + reach) / side);
            }
            for (bool more = true; more;) {
                auto found = other.cells.find(cell(c, s.d));
                if (found != other.cells.end())
                    for (int64_t v : found->second) {
                        const Object& y = objects[v];
                        double squared = 0;
                        for (int a = 0; a < s.d; ++a) {
                            double difference = x.centre[a] - y.centre[a];
                            squared += difference * difference;
                        }
                        const double distance = std::sqrt(squared);
                        if (distance > s.within + x.radius.back() + y.radius.back()) continue;
                        if (sample_level_prunes(x, y, distance, s.within, s.threshold)) continue;
                        candidates.push_back(v);
                    }
                int a = 0;
                while (a < s.d && ++c[a] > high[a]) c[a] = low[a], ++a;
                more = a < s.d;
            }
            for (int64_t v : candidates) {
                double total = match(s, u, v);
                if (total >= s.threshold) report(s, out, u, v, total);
            }
        }
        Index& own = index[s.side[u]];
        own.window.push_back(u);
        own.cells[cell_of(x, s.d, side)].push_back(u);
        while (!own.largest.empty() && own.largest.back().second <= x.radius.back())
            own.largest.pop_back();
        own.largest.push_back({u, x.radius.back()});
        if ((int64_t)own.window.size() > s.rows) {
            int64_t old = own.window.front();
            own.window.pop_front();
            auto place = own.cells.find(cell_of(objects[old], s.d, side));
            auto& list = place->second;
            *std::find(list.begin(), list.end(), old) = list.back();
            list.pop_back();
            if (list.empty()) own.cells.erase(place);
            if (own.largest.front().first == old) own.largest.pop_front();
            objects[old] = {};
        }
    }
}

void sorted(const Stream& s, int64_t n, Answers& out) {
    using Tree = std::multimap<double, std::pair<int64_t, double>>;
    Tree tree[2];
    std::deque<int64_t> window[2];
    std::vector<std::vector<Tree::iterator>> nodes(n);
    std::vector<double> total(n, 0);
    std::vector<int64_t> touched;
    for (int64_t u = 0; u < n; ++u) {
        const Tree& other = tree[1 - s.side[u]];
        touched.clear();
        for (int64_t k = s.offsets[u]; k < s.offsets[u + 1] && u >= s.begin; ++k) {
            const double x = s.points[k];
            for (auto it = other.lower_bound(x - s.within);
                 it != other.end() && it->first <= x + s.within; ++it) {
                const int64_t v = it->second.first;
                if (total[v] == 0) touched.push_back(v);
                total[v] += s.prob[k] * it->second.second;
            }
        }
        for (int64_t v : touched) {
            if (total[v] >= s.threshold) report(s, out, u, v, total[v]);
            total[v] = 0;
        }
        auto& own = window[s.side[u]];
        own.push_back(u);
        for (int64_t k = s.offsets[u]; k < s.offsets[u + 1]; ++k)
            nodes[u].push_back(tree[s.side[u]].insert({s.points[k], {u, s.prob[k]}}));
        if ((int64_t)own.size() > s.rows) {
            for (auto node : nodes[own.front()]) tree[s.side[u]].erase(node);
            nodes[own.front()] = {};
            own.pop_front();
        }
    }
}

}  // namespace

// kind: 0 nested, 1 nested for SIMD, 2 grid, 3 sorted. `side_length`: of the grid's cells.
extern "C" int64_t join(int64_t kind, int64_t n, const uint8_t* side, const int64_t* offsets,
                        const double* prob, const double* points, int64_t d, double within,
                        double threshold, int64_t rows, int64_t begin, double side_length,
                        int64_t samples, int64_t* arrival, int64_t* held, double* probability) {
    Stream s{side, offsets, prob, points, (int)d, within, threshold, rows, begin};
    Answers out{arrival, held, probability, 0, samples != 0, {}};
    if (kind == 0) nested(s, n, out);
    if (kind == 1 && d == 1) nested_simd<1>(s, n, out);
    if (kind == 1 && d == 2) nested_simd<2>(s, n, out);
    if (kind == 1 && d == 3) nested_simd<3>(s, n, out);
    if (kind == 2) grid(s, n, side_length, out);
    if (kind == 3) sorted(s, n, out);
    return out.count;
}
