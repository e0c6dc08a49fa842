// Sums of regression trees over rows: plain C ABI, raw pointers.
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
}
