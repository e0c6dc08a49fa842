// Sums of absolute differences of all rows of one matrix and all rows of another, and their
// gradients: plain C ABI, contiguous float32, counts int64_t. What a thread computes depends on no
// other, so results do not depend on the number of threads.
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#define EXPORT __attribute__((visibility("default")))

namespace {

constexpr int kLanes = 16;
constexpr int kRows = 4;
constexpr int64_t kBlock = 32;  // rows that read keys while these are in the cache
constexpr int64_t kKeys = 256;  // such keys, which are summed up by themselves: that keeps digits

typedef float Floats __attribute__((vector_size(kLanes * sizeof(float)), aligned(4)));
typedef int32_t Bits __attribute__((vector_size(kLanes * sizeof(float)), aligned(4)));

constexpr int32_t kSign = INT32_MIN;

Floats load(const float* from) { return *reinterpret_cast<const Floats*>(from); }

void store(float* to, Floats values) { *reinterpret_cast<Floats*>(to) = values; }

// Distances of `Rows` rows to two vectors of keys, which lie column by column.
template <int Rows>
void distances_of(const float* rows, const float* columns, int64_t width, float* out,
                  int64_t stride, int64_t count) {
    Floats sums[Rows][2] = {};
    for (int64_t j = 0; j < width; ++j) {
        const Floats left = load(columns + 2 * kLanes * j), right = load(columns + 2 * kLanes * j + kLanes);
        for (int i = 0; i < Rows; ++i) {
            const float x = rows[i * width + j];
            sums[i][0] += (Floats)((Bits)(left - x) & ~kSign);
            sums[i][1] += (Floats)((Bits)(right - x) & ~kSign);
        }
    }
    for (int i = 0; i < Rows; ++i) {
        if (count == 2 * kLanes) {
            store(out + i * stride, sums[i][0]);
            store(out + i * stride + kLanes, sums[i][1]);
        } else {
            for (int64_t k = 0; k < count; ++k) out[i * stride + k] = sums[i][k / kLanes][k % kLanes];
        }
    }
}

// Adds the signs of differences to some keys, with weights, for `Rows` rows and a vector of columns.
template <int Rows>
void add_signs(const float* rows, const float* keys, const float* weights, int64_t stride,
               int64_t num_keys, int64_t width, float* out) {
    Floats own[Rows], sums[Rows] = {};
    for (int i = 0; i < Rows; ++i) own[i] = load(rows + i * width);
    for (int64_t k = 0; k < num_keys; ++k) {
        const Floats key = load(keys + k * width);
        for (int i = 0; i < Rows; ++i) {
            const Floats difference = own[i] - key;
            const Floats weight = Floats{} + weights[i * stride + k];
            const Bits turned = (Bits)weight ^ ((Bits)difference & kSign);
            sums[i] += (Floats)(turned & (difference != 0.0f));
        }
    }
    for (int i = 0; i < Rows; ++i) store(out + i * width, load(out + i * width) + sums[i]);
}

}  // namespace

// out[b, row, key] = sum over columns of |rows[b, row] - keys[b, key]|
extern "C" EXPORT int64_t hetune_distances(const float* rows, const float* keys, float* out,
                                           int64_t batches, int64_t num_rows, int64_t num_keys,
                                           int64_t width, int64_t threads) {
    const int64_t tile = 2 * kLanes, tiles = (num_keys + tile - 1) / tile;
#pragma omp parallel num_threads(static_cast<int>(threads))
    {
        std::vector<float> columns(tile * width);
#pragma omp for schedule(static) collapse(2)
        for (int64_t b = 0; b < batches; ++b) {
            for (int64_t t = 0; t < tiles; ++t) {
                const int64_t first = t * tile, count = std::min(tile, num_keys - first);
                for (int64_t k = 0; k < count; ++k) {
                    const float* key = keys + (b * num_keys + first + k) * width;
                    for (int64_t j = 0; j < width; ++j) columns[j * tile + k] = key[j];
                }
                const float* own = rows + b * num_rows * width;
                float* to = out + b * num_rows * num_keys + first;
                int64_t i = 0;
                for (; i + kRows <= num_rows; i += kRows) {
                    distances_of<kRows>(own + i * width, columns.data(), width, to + i * num_keys,
                                        num_keys, count);
                }
                for (; i < num_rows; ++i) {
                    distances_of<1>(own + i * width, columns.data(), width, to + i * num_keys,
                                    num_keys, count);
                }
            }
        }
    }
    return 0;
}

// out[b, row, column] = sum over keys of weights[b, row, key] * sign(rows[b, row] - keys[b, key])
// The width is a multiple of 16.
extern "C" EXPORT int64_t hetune_signs(const float* rows, const float* keys, const float* weights,
                                       float* out, int64_t batches, int64_t num_rows,
                                       int64_t num_keys, int64_t width, int64_t threads) {
    const int64_t blocks = (num_rows + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) collapse(2) num_threads(static_cast<int>(threads))
    for (int64_t b = 0; b < batches; ++b) {
        for (int64_t block = 0; block < blocks; ++block) {
            const int64_t begin = b * num_rows + block * kBlock;
            const int64_t end = std::min(begin + kBlock, (b + 1) * num_rows);
            std::fill(out + begin * width, out + end * width, 0.0f);
            for (int64_t first = 0; first < num_keys; first += kKeys) {
                const int64_t count = std::min(kKeys, num_keys - first);
                for (int64_t j = 0; j < width; j += kLanes) {
                    const float* others = keys + (b * num_keys + first) * width + j;
                    const float* by = weights + first;
                    int64_t i = begin;
                    for (; i + kRows <= end; i += kRows) {
                        add_signs<kRows>(rows + i * width + j, others, by + i * num_keys, num_keys,
                                         count, width, out + i * width + j);
                    }
                    for (; i < end; ++i) {
                        add_signs<1>(rows + i * width + j, others, by + i * num_keys, num_keys,
                                     count, width, out + i * width + j);
                    }
                }
            }
        }
    }
    return 0;
}
