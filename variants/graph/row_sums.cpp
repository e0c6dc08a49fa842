// Rows added up by numbers: plain C ABI, contiguous float32, counts int64_t. Threads have columns of
// their own, so results do not depend on their number.
#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace {

constexpr int64_t kLine = 16;   // floats of a cache line
constexpr int64_t kAhead = 16;  // rows

}  // namespace

extern "C" __attribute__((visibility("default"))) void hetune_add_rows(
    float* out, int64_t width, const int32_t* ids, const float* rows, int64_t count, float factor,
    int64_t threads) {
    const int64_t lines = (width + kLine - 1) / kLine;
#pragma omp parallel num_threads(int(std::min(threads, lines)))
    {
        const int64_t parts = omp_get_num_threads(), part = omp_get_thread_num();
        const int64_t first = lines * part / parts * kLine;
        const int64_t last = std::min(lines * (part + 1) / parts * kLine, width);
        for (int64_t i = 0; i < count; ++i) {
            const float* const row = rows + i * width;
            float* const sum = out + ids[i] * width;
            if (i + kAhead < count) {
                const float* const ahead = out + ids[i + kAhead] * width;
                for (int64_t c = first; c < last; c += kLine) __builtin_prefetch(ahead + c, 1);
            }
#pragma omp simd
            for (int64_t c = first; c < last; ++c) sum[c] += factor * row[c];
        }
    }
}
