// Impute everything, then join: the straightforward way, for comparison with the fused join.
//
// Every arrival is imputed in full: an R-tree (packed by sort-tile-recursive) over the determinants
// of its missing attribute gives the donors, whose distinct values are counted in a map. Then it is
// joined with the other stream's window, either by nested loops over objects and samples, or by a
// grid in which an object stands in every cell that its bounding box meets, with the boxes' distance
// tested before samples are paired.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <deque>
#include <limits>
#include <map>
#include <unordered_map>
#include <vector>

namespace {

constexpr int FANOUT = 32;
constexpr int MAX_D = 16;

struct Box {
    double low[MAX_D], high[MAX_D];
};

struct Node {
    Box box;
    int64_t first, count;  // children, or rows of a leaf
    bool leaf;
};

struct RTree {
    int d;
    const double* points;
    const int64_t* axes;  // the determinants
    int k;
    std::vector<int64_t> rows;
    std::vector<Node> nodes;
    int64_t root;

    double at(int64_t row, int axis) const { return points[row * d + axes[axis]]; }

    // Sort-tile-recursive: slabs along one axis after the other.
    void tile(int64_t begin, int64_t end, int axis) {
        std::sort(rows.begin() + begin, rows.begin() + end,
                  [&](int64_t a, int64_t b) { return at(a, axis) < at(b, axis); });
        if (axis + 1 == k) return;
        double leaves = std::ceil(double(end - begin) / FANOUT);
        int64_t slabs = std::ceil(std::pow(leaves, 1.0 / (k - axis)));
        int64_t size = FANOUT * int64_t(std::ceil(leaves / slabs));
        for (int64_t b = begin; b < end; b += size) tile(b, std::min(b + size, end), axis + 1);
    }

    void build(const double* all, int64_t n, int dims, const int64_t* on, int on_count) {
        points = all, d = dims, axes = on, k = on_count;
        rows.resize(n);
        for (int64_t i = 0; i < n; i++) rows[i] = i;
        tile(0, n, 0);
        std::vector<int64_t> level;
        for (int64_t b = 0; b < n; b += FANOUT) {
            Node node{{}, b, std::min<int64_t>(FANOUT, n - b), true};
            for (int a = 0; a < k; a++) node.box.low[a] = INFINITY, node.box.high[a] = -INFINITY;
            for (int64_t i = b; i < b + node.count; i++)
                for (int a = 0; a < k; a++) {
                    node.box.low[a] = std::min(node.box.low[a], at(rows[i], a));
                    node.box.high[a] = std::max(node.box.high[a], at(rows[i], a));
                }
            level.push_back(nodes.size());
            nodes.push_back(node);
        }
        while (level.size() > 1) {
            std::vector<int64_t> above;
            for (size_t b = 0; b < level.size(); b += FANOUT) {
                Node node{{}, level[b], int64_t(std::min<size_t>(FANOUT, level.size() - b)), false};
                for (int a = 0; a < k; a++) {
                    node.box.low[a] = INFINITY, node.box.high[a] = -INFINITY;
                    for (int64_t c = node.first; c < node.first + node.count; c++) {
                        node.box.low[a] = std::min(node.box.low[a], nodes[c].box.low[a]);
                        node.box.high[a] = std::max(node.box.high[a], nodes[c].box.high[a]);
                    }
                }
                above.push_back(nodes.size());
                nodes.push_back(node);
            }
            level = above;
        }
        root = level[0];
    }

    template <class F>
    void query(int64_t n, const double* centre, const double* reach, F&& take) const {
        const Node& node = nodes[n];
        for (int a = 0; a < k; a++)
            if (node.box.low[a] - centre[axes[a]] > reach[axes[a]] ||
                node.box.high[a] - centre[axes[a]] < -reach[axes[a]])
                return;
        for (int64_t c = node.first; c < node.first + node.count; c++) {
            if (!node.leaf) {
                query(c, centre, reach, take);
                continue;
            }
            bool near = true;
            for (int a = 0; a < k && near; a++)
                near = std::abs(at(rows[c], a) - centre[axes[a]]) <= reach[axes[a]];
            if (near) take(rows[c]);
        }
    }
};

struct Object {
    int64_t number = 0, stamp = -1;
    std::vector<double> prob, values;  // values sample by sample
    Box box;
};

using Cell = uint64_t;

struct Window {
    std::deque<Object*> held;
    std::unordered_map<Cell, std::deque<Object*>> cells;
};

struct Join {
    int d;
    double within, probability, side;

    template <class F>
    void cells(const Box& box, double more, F&& visit) const {
        int64_t low[MAX_D], high[MAX_D], at[MAX_D];
        for (int a = 0; a < d; a++) {
            low[a] = at[a] = std::floor((box.low[a] - more) / side);
            high[a] = std::floor((box.high[a] + more) / side);
        }
        while (true) {
            Cell cell = 1469598103934665603ULL;
            for (int a = 0; a < d; a++) cell = (cell ^ uint64_t(at[a])) * 1099511628211ULL;
            visit(cell);
            int a = 0;
            while (a < d && at[a] == high[a]) at[a] = low[a], a++;
            if (a == d) return;
            at[a]++;
        }
    }

    bool far(const Box& x, const Box& y) const {
        double square = 0;
        for (int a = 0; a < d; a++) {
            double gap = std::max({x.low[a] - y.high[a], y.low[a] - x.high[a], 0.0});
            square += gap * gap;
        }
        return square > within * within * (1 + 1e-9);
    }

    double match(const Object& x, const Object& y) const {
        double total = 0;
        for (size_t i = 0; i < x.prob.size(); i++)
            for (size_t j = 0; j < y.prob.size(); j++) {
                double square = 0;
                for (int a = 0; a < d; a++) {
                    double difference = x.values[i * d + a] - y.values[j * d + a];
                    square += difference * difference;
                }
                if (std::sqrt(square) <= within) total += x.prob[i] * y.prob[j];
            }
        return total;
    }
};

}  // namespace

extern "C" {

void* incomplete_index(const double* points, int64_t n, int64_t d, const int64_t* axes,
                       const int64_t* counts) {
    auto* trees = new std::vector<RTree>(d);
    for (int t = 0; t < d; t++)
        if (counts[t]) (*trees)[t].build(points, n, d, axes + t * d, counts[t]);
    return trees;
}

void incomplete_free(void* trees) { delete static_cast<std::vector<RTree>*>(trees); }

double seconds() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

// Arrivals from `timed` on count: those before fill the windows, untested and untimed. Writes the
// answers, (arrival, held number, Pr) each, and the processor's seconds; returns their number.
int64_t incomplete_join(void* index, const double* points, int64_t d, const double* reach, int64_t grid,
                        int64_t n, const uint8_t* sides, const double* values, double within,
                        double probability, int64_t rows, double cell, int64_t timed,
                        int64_t room, int64_t* arrival, int64_t* held, double* pr, double* spent) {
    auto& trees = *static_cast<std::vector<RTree>*>(index);
    Join join{(int)d, within, probability, cell};
    Window windows[2];
    int64_t numbers[2] = {0, 0}, answers = 0;
    double began = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i == timed) began = seconds();
        int side = sides[i];
        auto* object = new Object;
        object->number = numbers[side]++;
        const double* mine = values + i * d;
        // Impute: the product over missing attributes, one after the other.
        object->prob = {1.0};
        object->values.assign(mine, mine + d);
        for (int t = 0; t < d; t++) {
            if (!std::isnan(mine[t])) continue;
            std::map<double, int64_t> law;
            int64_t donors = 0;
            trees[t].query(trees[t].root, mine, reach + t * d, [&](int64_t row) {
                law[points[row * d + t]]++;
                donors++;
            });
            std::vector<double> prob, more;
            for (size_t k = 0; k < object->prob.size(); k++)
                for (auto& [value, count] : law) {
                    prob.push_back(object->prob[k] * (double(count) / donors));
                    size_t at = more.size();
                    more.insert(more.end(), object->values.begin() + k * d,
                                object->values.begin() + (k + 1) * d);
                    more[at + t] = value;
                }
            object->prob = prob, object->values = more;
        }
        if (object->prob.empty()) {
            delete object;
            continue;
        }
        for (int a = 0; a < d; a++) object->box.low[a] = INFINITY, object->box.high[a] = -INFINITY;
        for (size_t k = 0; k < object->prob.size(); k++)
            for (int a = 0; a < d; a++) {
                object->box.low[a] = std::min(object->box.low[a], object->values[k * d + a]);
                object->box.high[a] = std::max(object->box.high[a], object->values[k * d + a]);
            }
        auto test = [&](Object* other) {
            double total = join.match(*object, *other);
            if (total >= probability && answers < room) {
                arrival[answers] = i, held[answers] = other->number, pr[answers] = total;
                answers++;
            }
        };
        Window &opposite = windows[1 - side], &own = windows[side];
        if (!grid) {
            if (i >= timed)
                for (Object* other : opposite.held) test(other);
        } else {
            if (i >= timed) join.cells(object->box, within, [&](Cell c) {
                auto found = opposite.cells.find(c);
                if (found == opposite.cells.end()) return;
                for (Object* other : found->second) {
                    if (other->stamp == i) continue;
                    other->stamp = i;
                    if (!join.far(object->box, other->box)) test(other);
                }
            });
            join.cells(object->box, 0, [&](Cell c) { own.cells[c].push_back(object); });
        }
        own.held.push_back(object);
        if (int64_t(own.held.size()) > rows) {
            Object* old = own.held.front();
            own.held.pop_front();
            if (grid)
                join.cells(old->box, 0, [&](Cell c) {
                    auto& queue = own.cells[c];
                    queue.pop_front();
                    if (queue.empty()) own.cells.erase(c);
                });
            delete old;
        }
    }
    *spent = seconds() - began;
    for (Window& window : windows)
        for (Object* object : window.held) delete object;
    return answers;
}
}
