// Sums of regression trees over rows: plain C ABI, raw pointers.
//
// Every tree is complete: 2^depth - 1 inner nodes, level by level, then 2^depth leaves; its depth
// is 1 at least. Returns a negative number when memory runs out; nothing else can fail.
#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

#define EXPORT __attribute__((visibility("default")))

namespace {

constexpr int64_t kOutOfMemory = -1;
// Rows are taken so many at a time, one in each lane of a vector.
constexpr int kLanes = 16;

struct Trees {
    const int32_t* feature;
    const float* threshold;
    const float* leaf;
    const int32_t* output;
    int64_t count, depth;
};

// Adds what each tree says of each lane's row to the sums of the output that the tree is of.
//
// All nodes are asked, from the lowest up: that is thirty comparisons of whole vectors, where a
// walk down from the root would gather what each lane needs, step by step.
void add_trees(const Trees& trees, const float* rows, float* said, float* sums) {
    const int64_t inner = (int64_t{1} << trees.depth) - 1, lowest = inner / 2;
    for (int64_t tree = 0; tree < trees.count; ++tree) {
        const int32_t* feature = trees.feature + tree * inner;
        const float* threshold = trees.threshold + tree * inner;
        const float* leaf = trees.leaf + tree * (inner + 1);
        for (int64_t node = inner - 1; node >= 0; --node) {
            const float* row = rows + feature[node] * kLanes;
            float* here = said + node * kLanes;
            if (node >= lowest) {
                const float* pair = leaf + 2 * (node - lowest);
                const float left = pair[0], right = pair[1];
#pragma omp simd
                for (int lane = 0; lane < kLanes; ++lane) {
                    here[lane] = row[lane] < threshold[node] ? left : right;
                }
            } else {
                const float* pair = said + (2 * node + 1) * kLanes;
#pragma omp simd
                for (int lane = 0; lane < kLanes; ++lane) {
                    const float left = pair[lane], right = pair[kLanes + lane];
                    here[lane] = row[lane] < threshold[node] ? left : right;
                }
            }
        }
        float* sum = sums + trees.output[tree] * kLanes;
#pragma omp simd
        for (int lane = 0; lane < kLanes; ++lane) sum[lane] += said[lane];
    }
}

}  // namespace

extern "C" {

// x [rows, features]; feature, threshold [trees, 2^depth - 1]; leaf [trees, 2^depth]; output
// [trees]; base [outputs]; out [rows, outputs].
EXPORT int64_t hetune_trees(const float* x, int64_t rows, int64_t features, const int32_t* feature,
                            const float* threshold, const float* leaf, const int32_t* output,
                            int64_t trees, int64_t depth, const float* base, int64_t outputs,
                            float* out) {
    const Trees all{feature, threshold, leaf, output, trees, depth};
    try {
        std::vector<float> block(features * kLanes), sums(outputs * kLanes);
        std::vector<float> said(kLanes << depth);
        for (int64_t first = 0; first < rows; first += kLanes) {
            const int64_t count = std::min<int64_t>(kLanes, rows - first);
            for (int64_t row = 0; row < count; ++row) {
                for (int64_t f = 0; f < features; ++f) {
                    block[f * kLanes + row] = x[(first + row) * features + f];
                }
            }
            for (int64_t o = 0; o < outputs; ++o) std::fill_n(&sums[o * kLanes], kLanes, base[o]);
            add_trees(all, block.data(), said.data(), sums.data());
            for (int64_t row = 0; row < count; ++row) {
                for (int64_t o = 0; o < outputs; ++o) {
                    out[(first + row) * outputs + o] = sums[o * kLanes + row];
                }
            }
        }
    } catch (const std::bad_alloc&) {
        return kOutOfMemory;
    }
    return rows;
}
}
