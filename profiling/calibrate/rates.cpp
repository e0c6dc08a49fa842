// What this machine can do at best: arithmetic on registers alone, and rows gathered at random.
#include <stdint.h>

typedef float v16 __attribute__((vector_size(64)));

static inline v16 load(const float* from) {
    v16 value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
}

#define EXPORT extern "C" __attribute__((visibility("default")))

// Work is cut into pieces that idle threads take, as kernels do: a neighbour on one core must not
// slow the yardstick down more than the kernel.
static const int pieces_per_thread = 16;

// FMA instructions on registers alone: 12 chains of 16 lanes, 384 operations a turn.
EXPORT void fma_peak(int64_t turns, int threads, float* sink) {
    const int pieces = pieces_per_thread * threads;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int piece = 0; piece < pieces; ++piece) {
        v16 chain[12];
        for (int i = 0; i < 12; ++i) chain[i] = v16{} + float(i);
        const volatile float unknown[2] = {0.999f, 1e-3f};
        const v16 factor = v16{} + unknown[0], term = v16{} + unknown[1];
        for (int64_t turn = 0; turn < turns / pieces_per_thread; ++turn) {
#pragma GCC unroll 12
            for (int i = 0; i < 12; ++i) chain[i] = chain[i] * factor + term;
        }
        v16 total = v16{};
        for (int i = 0; i < 12; ++i) total += chain[i];
        sink[piece] = total[0];
    }
}

// The sum of rows of 64 floats in random order: as fast as rows can be gathered.
EXPORT void gather_sum(const float* table, const int32_t* rows, int64_t count, int threads,
                       float* sink) {
    const int64_t ahead = 16, pieces = pieces_per_thread * threads;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t piece = 0; piece < pieces; ++piece) {
        const int64_t first = count * piece / pieces, stop = count * (piece + 1) / pieces;
        v16 a = {}, b = {}, c = {}, d = {};
        for (int64_t i = first; i < stop; ++i) {
            const float* next = table + int64_t(rows[i + ahead < stop ? i + ahead : i]) * 64;
            for (int line = 0; line < 64; line += 16) __builtin_prefetch(next + line);
            const float* row = table + int64_t(rows[i]) * 64;
            a += load(row);
            b += load(row + 16);
            c += load(row + 32);
            d += load(row + 48);
        }
        const v16 total = a + b + c + d;
        sink[piece] = total[0] + total[5];
    }
}
