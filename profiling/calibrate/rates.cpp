// What this machine can do at best: arithmetic on registers alone, and rows gathered at random.
#include <omp.h>
#include <stdint.h>

// Vectors as wide as a register: wider ones lie in memory, and have more than one instruction each.
static const int lanes = HETUNE_LANES;
typedef float vector __attribute__((vector_size(4 * lanes)));

static inline vector load(const float* from) {
    vector value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
}

#define EXPORT extern "C" __attribute__((visibility("default")))

// Work is cut into pieces that idle threads take, as kernels do: a neighbour on one core must not
// slow the yardstick down more than the kernel.
static const int pieces_per_thread = 16;

// FMA instructions on registers alone: 12 chains of them, 192 products and as many sums a turn.
EXPORT void fma_peak(int64_t turns, int threads, float* sink) {
    const int pieces = pieces_per_thread * threads;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int piece = 0; piece < pieces; ++piece) {
        vector chain[12];
        for (int i = 0; i < 12; ++i) chain[i] = vector{} + float(i);
        const volatile float unknown[2] = {0.999f, 1e-3f};
        const vector factor = vector{} + unknown[0], term = vector{} + unknown[1];
        for (int64_t turn = 0; turn < turns / pieces_per_thread * (16 / lanes); ++turn) {
#pragma GCC unroll 12
            for (int i = 0; i < 12; ++i) chain[i] = chain[i] * factor + term;
        }
        vector total = vector{};
        for (int i = 0; i < 12; ++i) total += chain[i];
        sink[piece] = total[0];
    }
}

// The sum of some rows of 64 floats, in any order: as fast as rows can be gathered.
static inline float sum_of_rows(const float* table, const int32_t* rows, int64_t first,
                                int64_t stop) {
    const int64_t ahead = 16;
    vector sums[64 / lanes] = {};
    for (int64_t i = first; i < stop; ++i) {
        const float* next = table + int64_t(rows[i + ahead < stop ? i + ahead : i]) * 64;
        for (int line = 0; line < 64; line += 16) __builtin_prefetch(next + line);
        const float* row = table + int64_t(rows[i]) * 64;
#pragma GCC unroll 16
        for (int part = 0; part < 64 / lanes; ++part) sums[part] += load(row + part * lanes);
    }
    vector total = {};
    for (int part = 0; part < 64 / lanes; ++part) total += sums[part];
    return total[0] + total[lanes - 1];
}

EXPORT void gather_sum(const float* table, const int32_t* rows, int64_t count, int threads,
                       float* sink) {
    const int64_t pieces = pieces_per_thread * threads;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t piece = 0; piece < pieces; ++piece) {
        const int64_t first = count * piece / pieces, stop = count * (piece + 1) / pieces;
        sink[piece] = sum_of_rows(table, rows, first, stop);
    }
}

// Every thread writes rows, and reads them in random order: its own, or those of the next thread,
// which lie in the cache of another core.
EXPORT void exchange(float* table, const int32_t* order, int64_t count, int threads, int shift,
                     float* sink) {
#pragma omp parallel num_threads(threads)
    {
        const int me = omp_get_thread_num();
        const vector value = vector{} + float(me);
        float* own = table + me * count * 64;
        for (int64_t at = 0; at < count * 64; at += lanes) {
            __builtin_memcpy(own + at, &value, sizeof value);
        }
#pragma omp barrier
        sink[me] = sum_of_rows(table + (me + shift) % threads * count * 64, order, 0, count);
    }
}
