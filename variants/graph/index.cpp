// Builds the indexes of a typed graph: plain C ABI, raw pointers; counts are int64_t, ids int32.
//
// Everything is a stable counting sort or a linear scan over fixed chunks, so that the result is
// bitwise the same whatever the number of threads. A function returns a negative number when
// memory runs out; nothing else can fail, because the graph has been validated before.
#include <omp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

#define EXPORT __attribute__((visibility("default")))

namespace {

constexpr int64_t kOutOfMemory = -1;
constexpr int kDigitBits = 11;
// Below this many elements a fork and a join cost more than the loop.
constexpr int64_t kElementsPerThread = 1 << 14;

int chunks_for(int64_t count, int64_t threads) {
    return static_cast<int>(
        std::clamp<int64_t>(count / kElementsPerThread, 1, std::max<int64_t>(threads, 1)));
}

struct Chunk {
    int64_t begin, end;
};

Chunk chunk_of(int64_t count, int chunks, int index) {
    return {count * index / chunks, count * (index + 1) / chunks};
}

int bits_for(int64_t buckets) {
    return buckets <= 1 ? 0 : std::bit_width(static_cast<uint64_t>(buckets - 1));
}

struct alignas(16) Edge {
    uint32_t src, etype_or_pair, dst, id;
};

struct alignas(8) Keyed {
    uint32_t key, id;
};

// One pass of a stable counting sort: `read(i)` yields a record, `key(record)` its digit.
template <class Record, class Read, class Key>
void counting_pass(Read read, Key key, int digit_bits, Record* out, int64_t count,
                   int64_t threads) {
    const int chunks = chunks_for(count, threads);
    const int64_t buckets = int64_t{1} << digit_bits;
    std::vector<int64_t> offsets(chunks * buckets, 0);
#pragma omp parallel for schedule(static) num_threads(chunks)
    for (int c = 0; c < chunks; ++c) {
        int64_t* histogram = offsets.data() + c * buckets;
        const auto [begin, end] = chunk_of(count, chunks, c);
        for (int64_t i = begin; i < end; ++i) ++histogram[key(read(i))];
    }
    int64_t sum = 0;
    for (int64_t b = 0; b < buckets; ++b) {
        for (int c = 0; c < chunks; ++c) {
            const int64_t size = offsets[c * buckets + b];
            offsets[c * buckets + b] = sum;
            sum += size;
        }
    }
#pragma omp parallel for schedule(static) num_threads(chunks)
    for (int c = 0; c < chunks; ++c) {
        int64_t* offset = offsets.data() + c * buckets;
        const auto [begin, end] = chunk_of(count, chunks, c);
        for (int64_t i = begin; i < end; ++i) {
            const Record record = read(i);
            out[offset[key(record)]++] = record;
        }
    }
}

// Sorts the records of `from` by `field`, using `to` as the other buffer; returns where they are.
template <class Record>
Record* radix_sort(Record* from, Record* to, uint32_t Record::*field, int64_t buckets,
                   int64_t count, int64_t threads) {
    const int bits = bits_for(buckets);
    const int passes = (bits + kDigitBits - 1) / kDigitBits;
    for (int pass = 0; pass < passes; ++pass) {
        const int low = bits * pass / passes, high = bits * (pass + 1) / passes;
        const uint32_t mask = (uint32_t{1} << (high - low)) - 1;
        counting_pass<Record>([=](int64_t i) { return from[i]; },
                              [=](const Record& r) { return (r.*field >> low) & mask; }, high - low,
                              to, count, threads);
        std::swap(from, to);
    }
    return from;
}

// Numbers the runs of equal (first, second) of `count` sorted elements: calls
// `visit(i, run, is_first)` for each, in parallel, and returns how many runs there are.
// `same(i)` says whether i and i - 1 are equal; it is never called after the first `visit`.
template <class Same, class Visit>
int64_t number_runs(Same same, Visit visit, int64_t count, int64_t threads) {
    if (count == 0) return 0;
    const int chunks = chunks_for(count, threads);
    std::vector<int64_t> runs(chunks, 0);
    std::vector<uint8_t> is_first(count);
#pragma omp parallel for schedule(static) num_threads(chunks)
    for (int c = 0; c < chunks; ++c) {
        const auto [begin, end] = chunk_of(count, chunks, c);
        int64_t found = 0;
        for (int64_t i = begin; i < end; ++i) found += is_first[i] = i == 0 || !same(i);
        runs[c] = found;
    }
    int64_t sum = 0;
    for (int64_t& run : runs) {
        const int64_t size = run;
        run = sum;
        sum += size;
    }
#pragma omp parallel for schedule(static) num_threads(chunks)
    for (int c = 0; c < chunks; ++c) {
        const auto [begin, end] = chunk_of(count, chunks, c);
        int64_t run = runs[c] - 1;
        for (int64_t i = begin; i < end; ++i) {
            run += is_first[i];
            visit(i, run, is_first[i] != 0);
        }
    }
    return sum;
}

int64_t order_edges(const int32_t* src, const int32_t* dst, const int32_t* etype, int64_t edges,
                    int64_t nodes, int64_t etypes, Edge* a, Edge* b, int32_t* edge_id,
                    int32_t* out_src, int32_t* out_dst, int32_t* out_etype, int32_t* src_pair,
                    int32_t* pair_node, int32_t* pair_etype, int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(chunks_for(edges, threads))
    for (int64_t i = 0; i < edges; ++i) {
        a[i] = {static_cast<uint32_t>(src[i]), static_cast<uint32_t>(etype[i]),
                static_cast<uint32_t>(dst[i]), static_cast<uint32_t>(i)};
    }
    Edge* sorted = radix_sort(a, b, &Edge::src, nodes, edges, threads);
    sorted = radix_sort(sorted, sorted == a ? b : a, &Edge::etype_or_pair, etypes, edges, threads);
    // By (etype, src): the order in which source pairs are numbered.
    const int64_t pairs = number_runs(
        [=](int64_t i) {
            return sorted[i].src == sorted[i - 1].src &&
                   sorted[i].etype_or_pair == sorted[i - 1].etype_or_pair;
        },
        [=](int64_t i, int64_t pair, bool is_first) {
            if (is_first) {
                pair_node[pair] = static_cast<int32_t>(sorted[i].src);
                pair_etype[pair] = static_cast<int32_t>(sorted[i].etype_or_pair);
            }
            sorted[i].etype_or_pair = static_cast<uint32_t>(pair);
        },
        edges, threads);
    sorted = radix_sort(sorted, sorted == a ? b : a, &Edge::dst, nodes, edges, threads);
#pragma omp parallel for schedule(static) num_threads(chunks_for(edges, threads))
    for (int64_t i = 0; i < edges; ++i) {
        const Edge edge = sorted[i];
        edge_id[i] = static_cast<int32_t>(edge.id);
        out_src[i] = static_cast<int32_t>(edge.src);
        out_dst[i] = static_cast<int32_t>(edge.dst);
        out_etype[i] = pair_etype[edge.etype_or_pair];
        src_pair[i] = static_cast<int32_t>(edge.etype_or_pair);
    }
    return pairs;
}

void sort_keys(const int32_t* keys, int64_t count, int64_t buckets, Keyed* a, Keyed* b,
               int32_t* order, int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(chunks_for(count, threads))
    for (int64_t i = 0; i < count; ++i) {
        a[i] = {static_cast<uint32_t>(keys[i]), static_cast<uint32_t>(i)};
    }
    const Keyed* sorted = radix_sort(a, b, &Keyed::key, buckets, count, threads);
#pragma omp parallel for schedule(static) num_threads(chunks_for(count, threads))
    for (int64_t i = 0; i < count; ++i) order[i] = static_cast<int32_t>(sorted[i].id);
}

int64_t group_rows(const int32_t* etype, const int32_t* row_ptr, int64_t blocks, int64_t etypes,
                   int32_t* rows, int32_t* block_ptr, int64_t threads) {
    const int64_t count = row_ptr[blocks];
    const int workers = chunks_for(count, threads);
    struct Scratch {
        std::vector<int32_t> next, touched;
    };
    std::vector<Scratch> scratch(workers);
    for (Scratch& s : scratch) {
        s.next.assign(etypes, 0);
        s.touched.reserve(etypes);
    }
    block_ptr[0] = 0;
#pragma omp parallel for schedule(dynamic, 16) num_threads(workers)
    for (int64_t b = 0; b < blocks; ++b) {
        auto& [next, touched] = scratch[omp_get_thread_num()];
        touched.clear();
        for (int32_t row = row_ptr[b]; row < row_ptr[b + 1]; ++row) {
            if (next[etype[row]]++ == 0) touched.push_back(etype[row]);
        }
        std::sort(touched.begin(), touched.end());
        int32_t start = row_ptr[b];
        for (const int32_t t : touched) {
            const int32_t size = next[t];
            next[t] = start;
            start += size;
        }
        for (int32_t row = row_ptr[b]; row < row_ptr[b + 1]; ++row) rows[next[etype[row]]++] = row;
        for (const int32_t t : touched) next[t] = 0;
        block_ptr[b + 1] = static_cast<int32_t>(touched.size());
    }
    for (int64_t b = 0; b < blocks; ++b) block_ptr[b + 1] += block_ptr[b];
    return block_ptr[blocks];
}

template <class Id>
int64_t own_ids(const Id* ids, int64_t stride, int64_t count, int64_t limit, int32_t* out) {
    const auto is_wrong = [limit](int64_t id) {
        return static_cast<uint64_t>(id) >= static_cast<uint64_t>(limit);
    };
    bool found = false;  // without a place, so that the loops are vectors
    if (stride == 1) {
        for (int64_t i = 0; i < count; ++i) {
            out[i] = static_cast<int32_t>(ids[i]);
            found |= is_wrong(ids[i]);
        }
    } else {
        for (int64_t i = 0; i < count; ++i) {
            out[i] = static_cast<int32_t>(ids[i * stride]);
            found |= is_wrong(ids[i * stride]);
        }
    }
    int64_t first = found ? 0 : count;
    while (first < count && !is_wrong(ids[first * stride])) ++first;
    return first;
}

template <class Body>
int64_t guarded(Body body) {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return kOutOfMemory;
    }
}

}  // namespace

extern "C" {

// Asks for large pages: fewer page faults, and a scatter misses the TLB less. Only a hint.
EXPORT int64_t hetune_index_prefer_large_pages([[maybe_unused]] void* data,
                                               [[maybe_unused]] int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr uintptr_t kPage = uintptr_t{1} << 21;
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kPage - 1) & ~(kPage - 1);
    const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) & ~(kPage - 1);
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
    return 0;
}

// out = ids of so many bytes each, `stride` apart; returns the first that is not in [0, limit), or
// else their number.
EXPORT int64_t hetune_index_own_ids(const void* ids, int64_t bytes, int64_t stride, int64_t count,
                                    int64_t limit, int32_t* out) {
    switch (bytes) {
        case 2: return own_ids(static_cast<const int16_t*>(ids), stride, count, limit, out);
        case 4: return own_ids(static_cast<const int32_t*>(ids), stride, count, limit, out);
        default: return own_ids(static_cast<const int64_t*>(ids), stride, count, limit, out);
    }
}

// own_ids of several parts, shifted: `given` has the address, bytes, stride, count, limit and shift
// of each, and where to write it. Returns the first part with an id that is not in range, or else
// their number.
EXPORT int64_t hetune_index_own_parts(const int64_t* given, int64_t parts) {
    for (int64_t p = 0; p < parts; ++p, given += 7) {
        const void* ids = reinterpret_cast<const void*>(given[0]);
        int32_t* const out = reinterpret_cast<int32_t*>(given[6]);
        const int64_t count = given[3], shift = given[5];
        if (hetune_index_own_ids(ids, given[1], given[2], count, given[4], out) < count) return p;
        for (int64_t i = 0; shift && i < count; ++i) out[i] += static_cast<int32_t>(shift);
    }
    return parts;
}

// Canonical order by (dst, etype, src, input), and the source pairs, numbered by (etype, src).
// scratch_a and scratch_b hold 16 bytes per edge each; pair_* have room for one pair per edge.
// Returns the number of source pairs.
EXPORT int64_t hetune_index_order(const int32_t* src, const int32_t* dst, const int32_t* etype,
                                  int64_t edges, int64_t nodes, int64_t etypes, void* scratch_a,
                                  void* scratch_b, int32_t* edge_id, int32_t* out_src,
                                  int32_t* out_dst, int32_t* out_etype, int32_t* src_pair,
                                  int32_t* pair_node, int32_t* pair_etype, int64_t threads) {
    return guarded([&] {
        return order_edges(src, dst, etype, edges, nodes, etypes, static_cast<Edge*>(scratch_a),
                           static_cast<Edge*>(scratch_b), edge_id, out_src, out_dst, out_etype,
                           src_pair, pair_node, pair_etype, threads);
    });
}

// order = the stable argsort of keys, all in [0, buckets). The scratch holds 8 bytes per key.
EXPORT int64_t hetune_index_sort(const int32_t* keys, int64_t count, int64_t buckets,
                                 void* scratch_a, void* scratch_b, int32_t* order,
                                 int64_t threads) {
    return guarded([&] {
        sort_keys(keys, count, buckets, static_cast<Keyed*>(scratch_a),
                  static_cast<Keyed*>(scratch_b), order, threads);
        return int64_t{0};
    });
}

// pointers[k] = how many of the sorted keys are smaller than k, for k in [0, buckets].
EXPORT int64_t hetune_index_pointers(const int32_t* keys, int64_t count, int64_t buckets,
                                     int32_t* pointers, int64_t threads) {
    const int chunks = chunks_for(count, threads);
#pragma omp parallel for schedule(static) num_threads(chunks)
    for (int c = 0; c < chunks; ++c) {
        const auto [begin, end] = chunk_of(count, chunks, c);
        int64_t next = begin == 0 ? 0 : int64_t{keys[begin - 1]} + 1;
        for (int64_t i = begin; i < end; ++i) {
            for (; next <= keys[i]; ++next) pointers[next] = static_cast<int32_t>(i);
        }
    }
    const int64_t tail = count == 0 ? 0 : int64_t{keys[count - 1]} + 1;
    std::fill(pointers + tail, pointers + buckets + 1, static_cast<int32_t>(count));
    return 0;
}

// Numbers the runs of equal (dst, etype) of the canonical order; returns how many there are.
EXPORT int64_t hetune_index_number_pairs(const int32_t* dst, const int32_t* etype, int64_t edges,
                                         int32_t* pair_of_edge, int64_t threads) {
    return guarded([&] {
        return number_runs(
            [=](int64_t i) { return dst[i] == dst[i - 1] && etype[i] == etype[i - 1]; },
            [=](int64_t i, int64_t pair, bool) { pair_of_edge[i] = static_cast<int32_t>(pair); },
            edges, threads);
    });
}

EXPORT int64_t hetune_index_fill_pairs(const int32_t* dst, const int32_t* etype,
                                       const int32_t* pair_of_edge, int64_t edges, int64_t pairs,
                                       int32_t* indptr, int32_t* node, int32_t* pair_etype,
                                       int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(chunks_for(edges, threads))
    for (int64_t i = 0; i < edges; ++i) {
        const int32_t pair = pair_of_edge[i];
        if (i > 0 && pair_of_edge[i - 1] == pair) continue;
        indptr[pair] = static_cast<int32_t>(i);
        node[pair] = dst[i];
        pair_etype[pair] = etype[i];
    }
    indptr[pairs] = static_cast<int32_t>(edges);
    return 0;
}

// Numbers the distinct (etype, node) of edges in any order, by etype, then node. The scratch holds
// 16 bytes per edge each; pair_node and pair_etype have room for one pair per edge. Returns how
// many.
EXPORT int64_t hetune_index_pairs(const int32_t* node, const int32_t* etype, int64_t edges,
                                  int64_t nodes, int64_t etypes, void* scratch_a, void* scratch_b,
                                  int32_t* pair_of_edge, int32_t* pair_node, int32_t* pair_etype,
                                  int64_t threads) {
    return guarded([&] {
        Edge *a = static_cast<Edge*>(scratch_a), *b = static_cast<Edge*>(scratch_b);
#pragma omp parallel for schedule(static) num_threads(chunks_for(edges, threads))
        for (int64_t i = 0; i < edges; ++i) {
            a[i] = {static_cast<uint32_t>(node[i]), static_cast<uint32_t>(etype[i]), 0,
                    static_cast<uint32_t>(i)};
        }
        Edge* sorted = radix_sort(a, b, &Edge::src, nodes, edges, threads);
        sorted =
            radix_sort(sorted, sorted == a ? b : a, &Edge::etype_or_pair, etypes, edges, threads);
        return number_runs(
            [=](int64_t i) {
                return sorted[i].src == sorted[i - 1].src &&
                       sorted[i].etype_or_pair == sorted[i - 1].etype_or_pair;
            },
            [=](int64_t i, int64_t pair, bool is_first) {
                if (is_first) {
                    pair_node[pair] = static_cast<int32_t>(sorted[i].src);
                    pair_etype[pair] = static_cast<int32_t>(sorted[i].etype_or_pair);
                }
                pair_of_edge[sorted[i].id] = static_cast<int32_t>(pair);
            },
            edges, threads);
    });
}

// positions = where etype[i] is wanted, ascending; the caller knows how many those are.
EXPORT int64_t hetune_index_select(const int32_t* etype, int64_t edges, const uint8_t* wanted,
                                   int32_t* positions, int64_t threads) {
    return guarded([&] {
        const int chunks = chunks_for(edges, threads);
        std::vector<int64_t> starts(chunks, 0);
#pragma omp parallel for schedule(static) num_threads(chunks)
        for (int c = 0; c < chunks; ++c) {
            const auto [begin, end] = chunk_of(edges, chunks, c);
            int64_t found = 0;
            for (int64_t i = begin; i < end; ++i) found += wanted[etype[i]];
            starts[c] = found;
        }
        int64_t sum = 0;
        for (int64_t& start : starts) {
            const int64_t size = start;
            start = sum;
            sum += size;
        }
#pragma omp parallel for schedule(static) num_threads(chunks)
        for (int c = 0; c < chunks; ++c) {
            const auto [begin, end] = chunk_of(edges, chunks, c);
            int64_t out = starts[c];
            for (int64_t i = begin; i < end; ++i) {
                if (wanted[etype[i]]) positions[out++] = static_cast<int32_t>(i);
            }
        }
        return sum;
    });
}

// Inside each block of rows [row_ptr[b], row_ptr[b + 1]), sorts the rows by etype, stably.
// block_ptr counts the runs of equal etype before each block; returns their total.
EXPORT int64_t hetune_index_group_rows(const int32_t* etype, const int32_t* row_ptr, int64_t blocks,
                                       int64_t etypes, int32_t* rows, int32_t* block_ptr,
                                       int64_t threads) {
    return guarded([&] {
        return group_rows(etype, row_ptr, blocks, etypes, rows, block_ptr, threads);
    });
}

EXPORT int64_t hetune_index_fill_groups(const int32_t* etype, const int32_t* rows,
                                        const int32_t* row_ptr, const int32_t* block_ptr,
                                        int64_t blocks, int32_t* group_ptr, int32_t* group_etype,
                                        int64_t threads) {
#pragma omp parallel for schedule(dynamic, 64) num_threads(chunks_for(row_ptr[blocks], threads))
    for (int64_t b = 0; b < blocks; ++b) {
        int32_t group = block_ptr[b];
        for (int32_t i = row_ptr[b]; i < row_ptr[b + 1]; ++i) {
            if (i > row_ptr[b] && etype[rows[i]] == etype[rows[i - 1]]) continue;
            group_ptr[group] = i;
            group_etype[group] = etype[rows[i]];
            ++group;
        }
    }
    group_ptr[block_ptr[blocks]] = row_ptr[blocks];
    return 0;
}

// Cuts nodes into ranges of at most block_nodes nodes and, but for single nodes, at most
// work_limit units of work (4 a node, 1 an incoming edge, 2 a destination pair). Writes their
// boundaries; and the order in which threads take them: hubs, which have more than work_limit units
// of work, most work first; then the others. `found` gets the number of hubs, and the most nodes,
// edges and destination pairs that a block has. Returns the number of blocks, for which there is
// room.
EXPORT int64_t hetune_index_node_blocks(const int32_t* indptr, const int32_t* pair_indptr,
                                        int64_t nodes, int64_t block_nodes, int64_t work_limit,
                                        int32_t* cuts, int32_t* order, int64_t* found) {
    return guarded([&] {
        const auto work_before = [=](int64_t n) {
            return 4 * n + int64_t{indptr[n]} + 2 * int64_t{pair_indptr[n]};
        };
        std::vector<std::pair<int64_t, int32_t>> hubs;
        int64_t blocks = 0, others = 0;
        std::fill(found, found + 4, int64_t{0});
        cuts[0] = 0;
        for (int64_t start = 0; start < nodes; ++blocks) {
            const int64_t limit = work_before(start) + work_limit;
            int64_t end = start + 1, above = std::min(nodes, start + block_nodes) + 1;
            while (above - end > 1) {
                const int64_t middle = end + (above - end) / 2;
                (work_before(middle) <= limit ? end : above) = middle;
            }
            const int64_t work = work_before(end) - work_before(start);
            if (work > work_limit) {
                hubs.emplace_back(-work, static_cast<int32_t>(blocks));
            } else {
                order[others++] = static_cast<int32_t>(blocks);
            }
            found[1] = std::max(found[1], end - start);
            found[2] = std::max(found[2], int64_t{indptr[end]} - indptr[start]);
            found[3] = std::max(found[3], int64_t{pair_indptr[end]} - pair_indptr[start]);
            cuts[blocks + 1] = static_cast<int32_t>(end);
            start = end;
        }
        std::sort(hubs.begin(), hubs.end());
        found[0] = static_cast<int64_t>(hubs.size());
        std::move_backward(order, order + others, order + blocks);
        for (const auto& hub : hubs) *order++ = hub.second;
        return blocks;
    });
}

// The nodes below `count` that are among ids, or else those that are not, ascending, for all of
// which there is room. Returns how many.
EXPORT int64_t hetune_index_nodes(const int32_t* ids, int64_t edges, int64_t count, int64_t having,
                                  int32_t* nodes) {
    return guarded([&] {
        std::vector<uint8_t> has_edge(count, 0);
        for (int64_t i = 0; i < edges; ++i) has_edge[ids[i]] = 1;
        int64_t found = 0;
        for (int64_t n = 0; n < count; ++n) {
            nodes[found] = static_cast<int32_t>(n);
            found += has_edge[n] == having;
        }
        return found;
    });
}

// Cuts rows that are sorted by type, counts[t] of type t, into groups of at most `most` rows, all
// but the last of a type after a multiple of `step`; blocks begin where another `most` rows have
// passed. Returns how many blocks.
EXPORT int64_t hetune_index_cut_by_type(const int64_t* counts, int64_t etypes, int64_t most,
                                        int64_t step, int32_t* group_ptr, int32_t* group_etype,
                                        int32_t* block_ptr) {
    int64_t group = 0, first_row = 0, blocks = 0, window = -1;
    for (int64_t t = 0; t < etypes; ++t) {
        const int64_t pieces = (counts[t] + most - 1) / most;
        const int64_t even = pieces == 0 ? 0 : (counts[t] + pieces - 1) / pieces;
        const int64_t size = (even + step - 1) / step * step;
        for (int64_t p = 0; p < pieces; ++p, ++group) {
            const int64_t start = first_row + std::min(p * size, counts[t]);
            group_ptr[group] = static_cast<int32_t>(start);
            group_etype[group] = static_cast<int32_t>(t);
            if (start / most != window) {
                window = start / most;
                block_ptr[blocks++] = static_cast<int32_t>(group);
            }
        }
        first_row += counts[t];
    }
    group_ptr[group] = static_cast<int32_t>(first_row);
    block_ptr[blocks] = static_cast<int32_t>(group);
    return blocks;
}

// The edges by type, cut as by `cut_by_type`: into `groups` at most, and `blocks`. What is not needed
// of them stays empty, behind the others. type_ptr has the first group of each type, and the end;
// terms numbers the groups of types with several, -1 for others.
EXPORT int64_t hetune_index_group_edges(const int32_t* etype, int64_t edges, int64_t etypes,
                                        int64_t most, int64_t step, int64_t groups, int64_t blocks,
                                        int32_t* rows, int32_t* group_ptr, int32_t* group_etype,
                                        int32_t* block_ptr, int32_t* terms, int32_t* type_ptr) {
    return guarded([&] {
        std::vector<int64_t> counts(etypes), next(etypes + 1);
        for (int64_t e = 0; e < edges; ++e) ++counts[etype[e]];
        for (int64_t t = 0; t < etypes; ++t) next[t + 1] = next[t] + counts[t];
        for (int64_t e = 0; e < edges; ++e) rows[next[etype[e]]++] = static_cast<int32_t>(e);
        const int64_t used = hetune_index_cut_by_type(counts.data(), etypes, most, step, group_ptr,
                                                      group_etype, block_ptr);
        const int32_t last = block_ptr[used];
        std::fill(block_ptr + used, block_ptr + blocks + 1, last);
        std::fill(group_ptr + last, group_ptr + groups + 1, static_cast<int32_t>(edges));
        std::fill(group_etype + last, group_etype + groups, 0);
        std::fill(terms, terms + groups, -1);
        type_ptr[0] = 0;
        for (int64_t t = 0, term = 0; t < etypes; ++t) {
            const int32_t pieces = static_cast<int32_t>((counts[t] + most - 1) / most);
            type_ptr[t + 1] = type_ptr[t] + pieces;
            if (pieces < 2) continue;
            for (int32_t g = type_ptr[t]; g < type_ptr[t + 1]; ++g) {
                terms[g] = static_cast<int32_t>(term++);
            }
        }
        return int64_t{0};
    });
}

// All indexes of a graph that is small enough for one thread, one after the other in `out`. Nodes
// are cut into about `wanted_blocks`; `groups` has a bit for each kind of rows to group inside the
// blocks. ntype[n * ntype_stride] is the type of node n. `found` gets what node_blocks finds [4];
// where each of the `fields` begins and how long it is, -1 where it is not made, in the order of
// `FIELDS` of small_index.py; and the edges, source and destination pairs of each type [etypes
// each]. Returns how many edges lie where they were given before one does not.
EXPORT int64_t hetune_index_small(const int32_t* src, const int32_t* dst, const int32_t* etype,
                                  const int32_t* ntype, int64_t ntype_stride, int64_t edges,
                                  int64_t nodes, int64_t targets, int64_t etypes,
                                  int64_t wanted_blocks, int64_t groups, int64_t fields,
                                  int32_t* out, int64_t* found) {
    return guarded([&] {
        std::vector<Edge> a(edges), b(edges);
        int64_t *field = found + 4, *const stats = field + 2 * fields;
        const int32_t* const begin = out;
        const auto next = [&](int64_t count) {
            *field++ = out - begin;
            *field++ = count;
            int32_t* start = out;
            out += count;
            return start;
        };
        int32_t *edge_id = next(edges), *sorted_src = next(edges), *sorted_dst = next(edges);
        int32_t *sorted_etype = next(edges), *src_pair = next(edges), *dst_pair = next(edges);
        int64_t* const pairs_field = field;
        int32_t *src_node = next(edges), *src_etype = next(edges);
        const int64_t src_pairs =
            order_edges(src, dst, etype, edges, nodes, etypes, a.data(), b.data(), edge_id,
                        sorted_src, sorted_dst, sorted_etype, src_pair, src_node, src_etype, 1);
        pairs_field[1] = pairs_field[3] = src_pairs;
        int64_t* const targets_field = field;
        int32_t *dst_node = next(edges), *dst_etype = next(edges), *dst_start = next(edges + 1);
        float* dst_count = reinterpret_cast<float*>(next(edges));
        int32_t *indptr = next(targets + 1), *pair_indptr = next(targets + 1);
        int32_t *degree = next(targets), *etype_ptr = next(etypes + 1);
        std::fill(stats, stats + 3 * etypes, int64_t{0});
        std::fill(degree, degree + targets, 0);
        int64_t dst_pairs = 0;
        for (int64_t i = 0; i < edges; ++i) {
            const int32_t target = sorted_dst[i], type = sorted_etype[i];
            if (i == 0 || target != sorted_dst[i - 1] || type != sorted_etype[i - 1]) {
                dst_start[dst_pairs] = static_cast<int32_t>(i);
                dst_node[dst_pairs] = target;
                dst_etype[dst_pairs++] = type;
                ++stats[2 * etypes + type];
            }
            dst_pair[i] = static_cast<int32_t>(dst_pairs - 1);
            ++degree[target];
            ++stats[type];
        }
        for (int i : {1, 3, 5, 7}) targets_field[i] = dst_pairs + (i == 5);
        dst_start[dst_pairs] = static_cast<int32_t>(edges);
        for (int64_t p = 0; p < dst_pairs; ++p) {
            dst_count[p] = static_cast<float>(dst_start[p + 1] - dst_start[p]);
        }
        for (int64_t p = 0; p < src_pairs; ++p) ++stats[etypes + src_etype[p]];
        hetune_index_pointers(sorted_dst, edges, targets, indptr, 1);
        hetune_index_pointers(dst_node, dst_pairs, targets, pair_indptr, 1);
        hetune_index_pointers(src_etype, src_pairs, etypes, etype_ptr, 1);

        // As cuts.py cuts them.
        const int64_t work = 4 * targets + edges + 2 * dst_pairs;
        const int64_t share = (work + wanted_blocks - 1) / wanted_blocks;
        const int64_t limit =
            share + std::max(share / 64, work / std::max<int64_t>(targets, 1)) + 8;
        const int64_t block_nodes = 2 * ((targets + wanted_blocks - 1) / wanted_blocks);
        int64_t* const cuts_field = field;
        const int64_t most_blocks = std::min(targets, 3 * wanted_blocks + 2);
        int32_t *cuts = next(most_blocks + 1), *order = next(most_blocks);
        const int64_t blocks = hetune_index_node_blocks(indptr, pair_indptr, targets, block_nodes,
                                                        limit, cuts, order, found);
        cuts_field[1] = blocks + 1;
        cuts_field[3] = blocks;

        std::vector<int32_t> row_ptr(blocks + 1);
        const auto absent = [&] {
            for (int i = 0; i < 8; ++i) *field++ = -1;
        };
        for (int kind = 0; kind < 2; ++kind) {  // edges, destination pairs
            if (!(groups >> kind & 1)) {
                absent();
                continue;
            }
            const int64_t count = kind ? dst_pairs : edges;
            const int32_t* types = kind ? dst_etype : sorted_etype;
            const int32_t* first = kind ? pair_indptr : indptr;
            for (int64_t i = 0; i <= blocks; ++i) row_ptr[i] = first[cuts[i]];
            int32_t *rows = next(count), *block_ptr = next(blocks + 1);
            const int64_t made =
                group_rows(types, row_ptr.data(), blocks, etypes, rows, block_ptr, 1);
            int32_t *group_ptr = next(made + 1), *group_etype = next(made);
            hetune_index_fill_groups(types, rows, row_ptr.data(), block_ptr, blocks, group_ptr,
                                     group_etype, 1);
        }
        std::vector<uint8_t> chosen(targets);
        for (int kind = 2; kind < 5; ++kind) {  // nodes: all, those with an edge from them, to them
            if (!(groups >> kind & 1)) {
                absent();
                continue;
            }
            std::fill(chosen.begin(), chosen.end(), kind == 2);
            if (kind > 2) {
                const int32_t* ends = kind == 3 ? sorted_src : sorted_dst;
                for (int64_t i = 0; i < edges; ++i) chosen[ends[i]] = 1;
            }
            int64_t* const own = field;
            int32_t *rows = next(targets), *block_ptr = next(blocks + 1);
            int32_t *group_ptr = next(targets + 1), *group_type = next(targets);
            int64_t count = 0, made = 0;
            for (int64_t block = 0; block < blocks; ++block) {
                block_ptr[block] = static_cast<int32_t>(made);
                for (int64_t n = cuts[block]; n < cuts[block + 1]; ++n) {
                    const int32_t type = ntype[n * ntype_stride];
                    if (n == cuts[block] || type != ntype[(n - 1) * ntype_stride]) {
                        group_ptr[made] = static_cast<int32_t>(count);
                        group_type[made++] = type;
                    }
                    if (chosen[n]) rows[count++] = static_cast<int32_t>(n);
                }
            }
            block_ptr[blocks] = static_cast<int32_t>(made);
            group_ptr[made] = static_cast<int32_t>(count);
            own[1] = count;
            own[5] = made + 1;
            own[7] = made;
        }
        int64_t in_place = 0;
        while (in_place < edges && edge_id[in_place] == in_place) ++in_place;
        return in_place;
    });
}

// Edges of edge_index, ids[row * row_stride + e * stride], in int32: sources in `out`, destinations
// and then numbers as far from each other as there may be edges. With `loops` each node gets a loop
// after all edges that are none. `scale` says which numbers: none, 1 / sqrt(degree of source *
// degree of destination) of each edge, or 1 / degree of each node; of what leads to nodes, rounded
// as torch rounds them. Returns the number of edges, or a negative one where an id is out of range.
EXPORT int64_t hetune_index_scaled_edges(const int64_t* ids, int64_t row_stride, int64_t stride,
                                         int64_t edges, int64_t nodes, int64_t loops, int64_t scale,
                                         int32_t* out) {
    const int64_t most = edges + (loops ? nodes : 0);
    int32_t *const src = out, *const dst = out + most;
    float* const numbers = reinterpret_cast<float*>(dst + most);
    int64_t count = 0;
    for (int64_t e = 0; e < edges; ++e) {
        const int64_t from = ids[e * stride], to = ids[row_stride + e * stride];
        const auto is_node = [=](int64_t id) {
            return static_cast<uint64_t>(id) < static_cast<uint64_t>(nodes);
        };
        if (!is_node(from) || !is_node(to)) return -2;
        src[count] = static_cast<int32_t>(from);
        dst[count] = static_cast<int32_t>(to);
        count += !loops || from != to;
    }
    for (int64_t n = 0; loops && n < nodes; ++n, ++count) {
        src[count] = dst[count] = static_cast<int32_t>(n);
    }
    if (!scale) return count;
    return guarded([&] {
        std::vector<int32_t> degree(nodes, 0);
        for (int64_t e = 0; e < count; ++e) ++degree[dst[e]];
        if (scale == 2) {
            for (int64_t n = 0; n < nodes; ++n) {
                numbers[n] = 1.0f / static_cast<float>(std::max(degree[n], 1));
            }
            return count;
        }
        std::vector<float> root(nodes, 0.0f);
        for (int64_t n = 0; n < nodes; ++n) {
            if (degree[n] > 0) root[n] = 1.0f / std::sqrt(static_cast<float>(degree[n]));
        }
        for (int64_t e = 0; e < count; ++e) numbers[e] = root[src[e]] * root[dst[e]];
        return count;
    });
}

// hetune_index_small of ids as they are given, checked, and written where launches read it.
//
// `given` has groups, fields, etypes and node types; room for int32 [3 * edges], where indexes, what
// is found and the type of each node go; edges, how many parts they have, wanted_blocks, and the
// nodes of each type. Each part has the address, bytes and stride of its sources,
// destinations and types (address 0: the type comes in place of the bytes), how many there are, and
// the types of nodes at both ends. Then come pairs of addresses and numbers: of as many pointers
// as `pointers` says, with places of fields, and of `counts`, with places in what is found. Returns
// a negative number where an id is out of range, too.
EXPORT int64_t hetune_index_rebind(const int64_t* given, const int64_t* part, const int64_t* bound,
                                   int64_t pointers, int64_t counts) {
    const int64_t etypes = given[2], ntypes = given[3], edges = given[8], parts = given[9];
    int32_t* const ids = reinterpret_cast<int32_t*>(given[4]);
    int32_t* const out = reinterpret_cast<int32_t*>(given[5]);
    int64_t* const found = reinterpret_cast<int64_t*>(given[6]);
    int32_t* const ntype = reinterpret_cast<int32_t*>(given[7]);
    const int64_t* const count_of = given + 11;
    return guarded([&]() -> int64_t {
        std::vector<int64_t> first(ntypes + 1, 0);
        for (int64_t t = 0; t < ntypes; ++t) {
            first[t + 1] = first[t] + count_of[t];
            std::fill(ntype + first[t], ntype + first[t + 1], static_cast<int32_t>(t));
        }
        int64_t done = 0;
        for (int64_t p = 0; p < parts; ++p, part += 12) {
            const int64_t size = part[9];
            for (int64_t column = 0; column < 3; ++column) {
                const int64_t* const told = part + 3 * column;
                const void* const data = reinterpret_cast<const void*>(told[0]);
                int32_t* const own = ids + column * edges + done;
                if (!data) {
                    std::fill(own, own + size, static_cast<int32_t>(told[1]));
                    continue;
                }
                const bool is_node = column < 2;
                const int64_t type = is_node ? part[10 + column] : 0;
                const int64_t limit = is_node ? count_of[type] : etypes;
                const int64_t right = hetune_index_own_ids(data, told[1], told[2], size, limit, own);
                if (right < size) return -2;
                const int32_t shift = is_node ? static_cast<int32_t>(first[type]) : 0;
                for (int64_t i = 0; shift && i < size; ++i) own[i] += shift;
            }
            done += size;
        }
        const int64_t nodes = first[ntypes];
        const int64_t in_place = hetune_index_small(ids, ids + edges, ids + 2 * edges, ntype, 1,
                                                    edges, nodes, nodes, etypes, given[10],
                                                    given[0], given[1], out, found);
        for (int64_t i = 0; i < pointers; ++i, bound += 2) {
            *reinterpret_cast<int32_t**>(bound[0]) = out + found[bound[1]];
        }
        for (int64_t i = 0; i < counts; ++i, bound += 2) {
            *reinterpret_cast<int64_t*>(bound[0]) = found[bound[1]];
        }
        return in_place;
    });
}

}  // extern "C"
