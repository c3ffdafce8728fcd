// The part of the emulator that is the same for all kernels; emulator.h precedes it.
namespace emulator {
static const size_t STACK = 64 * 1024;
static Fiber fibers[MAX_THREADS];
Fiber* current;
static void* scheduler_stack;
Index block, block_dim, grid_dim;
Meeting all, warps[MAX_THREADS / 32];
Slot slots[MAX_THREADS];
static unsigned long long progress, draws;
void (*entry)();
// The first misaligned access: its line, 0 if there was none, and the alignment that its type needs.
static unsigned misaligned_line, misaligned_bytes;

// All shared variables of the kernel.
static char *shared_begin, *shared_end;

// The kind of error that ended a launch; the higher bits hold a detail.
enum Error { NEVER_COME = 1, ARGUMENTS = 2, THREADS = 3, MISALIGNED = 4 };

// A random number below n, by the launch's seed.
static unsigned draw(unsigned n) {
    draws = draws * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned) ((draws >> 32) * n >> 32);
}

extern "C" void emulator_switch(void** from, void* to);
#if defined(__x86_64__)
__asm__(".text\n.local emulator_switch\n.type emulator_switch,@function\nemulator_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
#else
#error "the emulator switches stacks on x86-64 only"
#endif

static void yield() { emulator_switch(&current->stack_pointer, scheduler_stack); }
void meet(Meeting& meeting) {
    unsigned turn = meeting.turn;
    if (++meeting.arrived == meeting.members) {
        meeting.arrived = 0;
        meeting.turn++;
        progress++;
    }
    while (meeting.turn == turn) {
        yield();
    }
}
static void leave(Meeting& meeting) {
    if (--meeting.members > 0 && meeting.arrived == meeting.members) {
        meeting.arrived = 0;
        meeting.turn++;
    }
}
static void fiber_main() {
    for (;;) {
        entry();
        current->state = DONE;
        current->idle = true;
        progress++;
        leave(all);
        leave(warps[current->number / 32]);
        yield();
    }
}
// Runs the lanes of a warp until all of them wait for other warps; returns how many have finished.
static unsigned run_warp(unsigned first, unsigned lanes) {
    unsigned ended = 0;
    unsigned long long before;
    do {
        before = progress;
        unsigned start = draw(lanes), back = draw(2);
        for (unsigned k = 0; k < lanes; k++) {
            Fiber& f = fibers[first + (start + (back ? lanes - k : k)) % lanes];
            if (f.state == RUNNING) {
                current = &f;
                emulator_switch(&scheduler_stack, f.stack_pointer);
                ended += f.state == DONE;
            }
        }
    } while (progress != before);
    return ended;
}
static void begin(Fiber& f, unsigned number) {
    f.state = RUNNING;
    f.number = number;
    f.thread = {number % block_dim.x, number / block_dim.x % block_dim.y, number / (block_dim.x * block_dim.y)};
    if (!f.stack || !f.idle) {
        f.stack = f.stack ? f.stack : (char*) __builtin_malloc(STACK);
        void** top = (void**) (f.stack + STACK - 64);
        *--top = nullptr;
        *--top = (void*) fiber_main;
        top -= 6;
        f.stack_pointer = top;
    }
    f.idle = false;
}
// Runs a block; returns whether all threads have finished.
static bool run_block(unsigned threads) {
    __builtin_memset(shared_begin, 0xff, shared_end - shared_begin);
    all = {0, threads, 0};
    unsigned count = (threads + 31) / 32, order[MAX_THREADS / 32];
    for (unsigned w = 0; w < count; w++) {
        warps[w] = {0, threads - w * 32 < 32 ? threads - w * 32 : 32, 0};
    }
    for (unsigned t = 0; t < threads; t++) {
        begin(fibers[t], t);
    }
    unsigned left = threads;
    while (left > 0) {
        unsigned long long before = progress;
        for (unsigned k = 0; k < count; k++) {
            unsigned other = draw(k + 1);
            order[k] = order[other];
            order[other] = k;
        }
        for (unsigned k = 0; k < count; k++) {
            unsigned first = order[k] * 32;
            left -= run_warp(first, threads - first < 32 ? threads - first : 32);
        }
        if (left > 0 && progress == before) {
            return false;
        }
    }
    return true;
}
int run_grid(const unsigned* dimensions, unsigned bound, unsigned parameters, char* shared, char* end) {
    shared_begin = shared;
    shared_end = end;
    grid_dim = {dimensions[0], dimensions[1], dimensions[2]};
    block_dim = {dimensions[3], 1, 1};
    draws = dimensions[4];
    misaligned_line = 0;
    if (dimensions[3] > bound) {
        return THREADS | bound << 4;
    }
    if (dimensions[5] != parameters) {
        return ARGUMENTS | parameters << 4;
    }
    unsigned long long blocks = (unsigned long long) grid_dim.x * grid_dim.y * grid_dim.z;
    unsigned long long start = draw(blocks < 1u << 31 ? (unsigned) blocks : 1u << 31);
    for (unsigned long long k = 0; k < blocks; k++) {
        unsigned long long i = (start + k) % blocks;
        block = {(unsigned) (i % grid_dim.x), (unsigned) (i / grid_dim.x % grid_dim.y),
            (unsigned) (i / grid_dim.x / grid_dim.y)};
        if (!run_block(dimensions[3])) {
            return misaligned_line == 0 ? NEVER_COME
                    : MISALIGNED | misaligned_bytes << 4 | misaligned_line << 12;
        }
    }
    return 0;
}

// What the compiler passes on about an access whose address it checks.
struct Access { const char* file; unsigned line, column; const void* type; unsigned char log_alignment, kind; };
}

extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(const emulator::Access* access,
        size_t address) {
    if (emulator::misaligned_line == 0) {
        emulator::misaligned_line = access->line;
        emulator::misaligned_bytes = 1u << access->log_alignment;
    }
    // The access itself might crash the process.
    for (;;) {
        emulator::yield();
    }
}
