// Sums of regression trees over rows, and what each feature adds to them: plain C ABI, raw pointers.
//
// Every tree is complete: 2^depth - 1 inner nodes, level by level, then 2^depth leaves; its depth
// is 1 to 8. Returns a negative number when memory runs out; nothing else can fail.
#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

#define EXPORT __attribute__((visibility("default")))

namespace {

constexpr int64_t kOutOfMemory = -1;
// Rows are taken so many at a time, one in each lane of a vector as wide as a register: GCC keeps
// wider ones in memory.
constexpr int kLanes = HETUNE_LANES;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

struct Tree {
    const int32_t* feature;
    const float *threshold, *leaf;
};

// What a tree says of each lane's row, from a node down that has so many levels below it.
//
// All nodes are asked: that is thirty comparisons of whole vectors, where a walk down from the root
// would gather what each lane needs, step by step.
template <int levels>
inline void ask(const Tree& tree, const Lanes* row, int64_t node, int64_t inner, Lanes& said) {
    if constexpr (levels == 0) {
        said = Lanes{} + tree.leaf[node - inner];
    } else {
        Lanes left, right;
        ask<levels - 1>(tree, row, 2 * node + 1, inner, left);
        ask<levels - 1>(tree, row, 2 * node + 2, inner, right);
        said = row[tree.feature[node]] < tree.threshold[node] ? left : right;
    }
}

struct Trees {
    Tree first;
    const int32_t* output;
    int64_t count;
};

// Adds what each tree says of each lane's row to the sums of the output that the tree is of.
template <int depth>
void add_trees(const Trees& trees, const Lanes* row, Lanes* sums) {
    constexpr int64_t inner = (int64_t{1} << depth) - 1;
    Tree tree = trees.first;
    for (int64_t number = 0; number < trees.count; ++number) {
        Lanes said;
        ask<depth>(tree, row, 0, inner, said);
        sums[trees.output[number]] += said;
        tree = {tree.feature + inner, tree.threshold + inner, tree.leaf + inner + 1};
    }
}

// The features on the way to a leaf, each once: the share of all rows that its splits let through,
// and whether they let a lane's row through, 1 or 0.
struct Way {
    int32_t feature[8];
    float shares[8];
    Lanes passes[8];
    int count = 0;

    void add(int32_t name, float share, Lanes pass) {
        int at = 0;
        while (at < count && feature[at] != name) ++at;
        if (at == count) {
            ++count;
            feature[at] = name, shares[at] = share, passes[at] = pass;
        } else {
            shares[at] *= share, passes[at] *= pass;
        }
    }

    // Adds what each feature adds to a leaf: its Shapley value. Sets of the other features are
    // counted by size, as coefficients of the product of (share + pass y).
    void credit(float leaf, Lanes* sums) const {
        for (int own = 0; own < count; ++own) {
            Lanes sets[8] = {Lanes{} + 1};
            int size = 0;
            for (int other = 0; other < count; ++other) {
                if (other == own) continue;
                sets[++size] = Lanes{};
                for (int k = size; k > 0; --k) sets[k] = sets[k] * shares[other] + sets[k - 1] * passes[other];
                sets[0] *= shares[other];
            }
            Lanes total{};
            float weight = 1.0f / count;  // k! (count - 1 - k)! / count!
            for (int k = 0; k < count; ++k) {
                total += sets[k] * weight;
                weight *= float(k + 1) / float(std::max(count - 1 - k, 1));
            }
            sums[feature[own]] += total * (passes[own] - shares[own]) * leaf;
        }
    }
};

// Adds what a tree's features add for each lane's row, and last its mean. `covers` has room for all
// nodes.
void add_contributions(const Tree& tree, const float* leaf_covers, int64_t inner, const Lanes* row,
                       int64_t features, float* covers, Lanes* sums) {
    std::copy_n(leaf_covers, inner + 1, covers + inner);
    for (int64_t node = inner - 1; node >= 0; --node) covers[node] = covers[2 * node + 1] + covers[2 * node + 2];
    for (int64_t leaf = 0; leaf <= inner; ++leaf) {
        if (leaf_covers[leaf] <= 0) continue;
        Way way;
        for (int64_t node = inner + leaf; node > 0; node = (node - 1) / 2) {
            const int64_t parent = (node - 1) / 2;
            const Lanes goes_left = row[tree.feature[parent]] < tree.threshold[parent] ? Lanes{} + 1 : Lanes{};
            const Lanes passes = node == 2 * parent + 1 ? goes_left : 1 - goes_left;
            way.add(tree.feature[parent], covers[node] / covers[parent], passes);
        }
        way.credit(tree.leaf[leaf], sums);
        sums[features] += tree.leaf[leaf] * (leaf_covers[leaf] / covers[0]);
    }
}

// By depth, which is 1 at least.
constexpr void (*kAddTrees[])(const Trees&, const Lanes*, Lanes*) = {
    add_trees<1>, add_trees<2>, add_trees<3>, add_trees<4>,
    add_trees<5>, add_trees<6>, add_trees<7>, add_trees<8>,
};

}  // namespace

extern "C" {

// x [rows, features]; feature, threshold [trees, 2^depth - 1]; leaf [trees, 2^depth]; output
// [trees]; base [outputs]; out [rows, outputs].
EXPORT int64_t hetune_trees(const float* x, int64_t rows, int64_t features, const int32_t* feature,
                            const float* threshold, const float* leaf, const int32_t* output,
                            int64_t trees, int64_t depth, const float* base, int64_t outputs,
                            float* out) {
    const Trees all{{feature, threshold, leaf}, output, trees};
    try {
        std::vector<Lanes> block(features), sums(outputs);
        for (int64_t first = 0; first < rows; first += kLanes) {
            const int64_t count = std::min<int64_t>(kLanes, rows - first);
            for (int64_t row = 0; row < count; ++row) {
                for (int64_t f = 0; f < features; ++f) block[f][row] = x[(first + row) * features + f];
            }
            for (int64_t o = 0; o < outputs; ++o) sums[o] = Lanes{} + base[o];
            kAddTrees[depth - 1](all, block.data(), sums.data());
            for (int64_t row = 0; row < count; ++row) {
                for (int64_t o = 0; o < outputs; ++o) out[(first + row) * outputs + o] = sums[o][row];
            }
        }
    } catch (const std::bad_alloc&) {
        return kOutOfMemory;
    }
    return rows;
}

// As above, of the only output; cover [trees, 2^depth]; out [rows, features + 1].
EXPORT int64_t hetune_contributions(const float* x, int64_t rows, int64_t features,
                                    const int32_t* feature, const float* threshold,
                                    const float* leaf, const int32_t*, int64_t trees, int64_t depth,
                                    const float* base, int64_t, const float* cover, float* out) {
    const int64_t inner = (int64_t{1} << depth) - 1, width = features + 1;
    try {
        std::vector<Lanes> block(features), sums(width);
        std::vector<float> covers(2 * inner + 1);
        for (int64_t first = 0; first < rows; first += kLanes) {
            const int64_t count = std::min<int64_t>(kLanes, rows - first);
            for (int64_t row = 0; row < count; ++row) {
                for (int64_t f = 0; f < features; ++f) block[f][row] = x[(first + row) * features + f];
            }
            std::fill(sums.begin(), sums.end(), Lanes{});
            sums[features] += base[0];
            for (int64_t number = 0; number < trees; ++number) {
                const Tree tree{feature + number * inner, threshold + number * inner,
                                leaf + number * (inner + 1)};
                add_contributions(tree, cover + number * (inner + 1), inner, block.data(), features,
                                  covers.data(), sums.data());
            }
            for (int64_t row = 0; row < count; ++row) {
                for (int64_t f = 0; f < width; ++f) out[(first + row) * width + f] = sums[f][row];
            }
        }
    } catch (const std::bad_alloc&) {
        return kOutOfMemory;
    }
    return rows;
}
}
