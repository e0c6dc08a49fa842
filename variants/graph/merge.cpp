// Edits sorted columns of a graph's indexes by runs, where building them anew would sort.
//
// What goes is given by ascending positions; what comes, by the ascending position that it is put
// before. Threads share the positions, so that the result does not depend on their number.
#include <omp.h>

#include <algorithm>
#include <cstdint>

#define EXPORT __attribute__((visibility("default")))

namespace {

constexpr int64_t kElementsPerThread = 1 << 14;

int chunks_for(int64_t count, int64_t threads) {
    return static_cast<int>(
        std::clamp<int64_t>(count / kElementsPerThread, 1, std::max<int64_t>(threads, 1)));
}

int64_t before(const int32_t* sorted, int64_t count, int64_t position) {
    return std::lower_bound(sorted, sorted + count, position) - sorted;
}

}  // namespace

extern "C" {

// out = values without those at `removed`, with added[i] before values[at[i]] (at the end, if that
// is `count`). What is kept is looked up in `renumber`, unless that is null.
EXPORT int64_t hetune_merge_column(const int32_t* values, int64_t count, const int32_t* removed,
                                   int64_t removals, const int32_t* at, const int32_t* added,
                                   int64_t additions, const int32_t* renumber, int32_t* out,
                                   int64_t threads) {
    const int chunks = chunks_for(count, threads);
#pragma omp parallel for schedule(static) num_threads(chunks)
    for (int c = 0; c < chunks; ++c) {
        const int64_t begin = count * c / chunks, end = count * (c + 1) / chunks;
        int64_t r = before(removed, removals, begin), a = before(at, additions, begin);
        int32_t* next = out + begin - r + a;
        for (int64_t i = begin; i < end;) {
            for (; a < additions && at[a] <= i; ++a) *next++ = added[a];
            if (r < removals && removed[r] == i) {
                ++r, ++i;
                continue;
            }
            int64_t stop = end;
            if (r < removals) stop = std::min<int64_t>(stop, removed[r]);
            if (a < additions) stop = std::min<int64_t>(stop, at[a]);
            if (renumber) {
                for (; i < stop; ++i) *next++ = renumber[values[i]];
            } else {
                next = std::copy(values + i, values + stop, next);
                i = stop;
            }
        }
        if (c == chunks - 1) std::copy(added + a, added + additions, next);
    }
    return 0;
}

// numbers[i] = what becomes of position i: positions before it go, others come. Those that go get
// the number of what follows them.
EXPORT int64_t hetune_merge_renumber(int64_t count, const int32_t* removed, int64_t removals,
                                     const int32_t* at, int64_t additions, int32_t* numbers,
                                     int64_t threads) {
    const int chunks = chunks_for(count, threads);
#pragma omp parallel for schedule(static) num_threads(chunks)
    for (int c = 0; c < chunks; ++c) {
        const int64_t begin = count * c / chunks, end = count * (c + 1) / chunks;
        int64_t r = before(removed, removals, begin), a = before(at, additions, begin);
        for (int64_t i = begin; i < end;) {
            while (r < removals && removed[r] < i) ++r;
            while (a < additions && at[a] <= i) ++a;
            int64_t stop = end;
            if (r < removals) stop = std::min<int64_t>(stop, int64_t{removed[r]} + 1);
            if (a < additions) stop = std::min<int64_t>(stop, at[a]);
            for (const int64_t shift = a - r; i < stop; ++i) {
                numbers[i] = static_cast<int32_t>(i + shift);
            }
        }
    }
    return 0;
}

// out[i] = the first position from low[i] to high[i] where (2 * major, 2 * minor) is not below
// (major_keys[i], minor_keys[i]), or is above it. Without `major` that is the same everywhere.
EXPORT int64_t hetune_merge_bound(const int32_t* major, const int32_t* minor,
                                  const int64_t* major_keys, const int64_t* minor_keys,
                                  const int64_t* low, const int64_t* high, int64_t count,
                                  int64_t above, int64_t* out, int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(chunks_for(count, threads))
    for (int64_t i = 0; i < count; ++i) {
        int64_t first = low[i], last = high[i];
        while (first < last) {
            const int64_t middle = first + (last - first) / 2;
            const int64_t a = major ? 2 * int64_t{major[middle]} - major_keys[i] : 0;
            const int64_t b = 2 * int64_t{minor[middle]} - minor_keys[i];
            const bool is_below = a < 0 || (a == 0 && (b < 0 || (b == 0 && above)));
            (is_below ? first : last) = is_below ? middle + 1 : middle;
        }
        out[i] = first;
    }
    return 0;
}
}
