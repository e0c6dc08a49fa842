// Starts the kernels of a plan, one after the other, through the CUDA driver's own functions.
//
// Parameters are known but for addresses that differ from call to call: those are patched in a
// copy, so that threads may call at the same time. Nothing of CUDA is needed to compile it.

#include <cstdint>
#include <vector>

namespace {

struct Kernel {
    void* function;
    uint32_t grid[3];
    uint32_t threads;
    uint32_t shared;
    uint32_t parameters;
};

struct Patch {
    int64_t parameter;
    int64_t address;
    uint64_t offset;
};

struct Calls {
    int (*get_context)(void**);
    int (*set_context)(void*);
    int (*launch)(void*, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
                  void*, void**, void**);
    void* context;
    const Kernel* kernels;
    int64_t num_kernels;
    const uint64_t* parameters;
    int64_t num_parameters;
    const Patch* patches;
    int64_t num_patches;
    int64_t num_addresses;
};

int64_t start(const Calls& calls, const uint64_t* addresses, void* stream) {
    std::vector<uint64_t> parameters(calls.parameters, calls.parameters + calls.num_parameters);
    std::vector<void*> places(calls.num_parameters);
    for (int64_t i = 0; i < calls.num_parameters; ++i) places[i] = &parameters[i];
    for (int64_t i = 0; i < calls.num_patches; ++i) {
        const Patch& patch = calls.patches[i];
        parameters[patch.parameter] = addresses[patch.address] + patch.offset;
    }
    void** next = places.data();
    for (int64_t i = 0; i < calls.num_kernels; ++i) {
        const Kernel& kernel = calls.kernels[i];
        const uint32_t* grid = kernel.grid;
        const int status = calls.launch(kernel.function, grid[0], grid[1], grid[2], kernel.threads,
                                        1, 1, kernel.shared, stream, next, nullptr);
        if (status) return (i + 1) << 32 | status;
        next += kernel.parameters;
    }
    return 0;
}

}  // namespace

// 0 if all kernels were started; else what the driver answered, with the kernel's number, from 1 on,
// in the upper half (0: none was started, for want of a context). -1: an address is no multiple of
// 16, and none was started.
extern "C" __attribute__((visibility("default"))) int64_t hetune_start(
    const Calls* calls, const uint64_t* addresses, void* stream) {
    uint64_t low = 0;
    for (int64_t i = 0; i < calls->num_addresses; ++i) low |= addresses[i];
    if (low % 16) return -1;
    // A fresh thread has no context, and torch may have turned to another device.
    void* before = nullptr;
    int status = calls->get_context(&before);
    const bool is_other = before != calls->context;
    if (!status && is_other) status = calls->set_context(calls->context);
    if (status) return status;
    const int64_t found = start(*calls, addresses, stream);
    if (is_other) calls->set_context(before);
    return found;
}
