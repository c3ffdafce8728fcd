// Updates in place, of all tensors of a table in one launch. Macros: T, the type; C, the type to compute in; WIDTH of a
// vector; CHUNK, the elements of a block; ENTRIES of a table; RULE with its OPERANDS. Operand 0 is the target; operand
// 1 the source or gradient, which is not changed; the others are state or, where ReadOnly says so, further sources.

// For each entry the addresses of its operands, the number of elements, and the first block that works on them.
template <int N> struct Table {
    T* at[N][ENTRIES];
    u32 count[ENTRIES], first[ENTRIES], entries;
};

// Prevents all changes if a flag is set, or if a number is infinite or NaN: then all bits of its exponent, among its
// highest bits, are ones. Each pointer may be null.
struct Guard {
    const u16* highest;
    const u32* broken;
    u32 exponent;
    __device__ bool holds() const {
        return !(broken && *broken) && !(highest && (*highest & exponent) == exponent);
    }
};

template <class C> struct Assign {
    __device__ void operator()(C (&x)[2]) const { x[0] = x[1]; }
};

template <class C> struct Blend {
    C decay, weight;
    __device__ void operator()(C (&x)[2]) const { x[0] = decay * x[0] + weight * x[1]; }
};

template <class C> struct RunningStatistics {
    C weight, epsilon, unbiased;
    __device__ void operator()(C (&x)[4]) const {
        C biased = C(1) / (x[3] * x[3]) - epsilon, variance = unbiased * (biased < 0 ? C(0) : biased);
        if (!is_nan(variance) && !is_inf(variance) && !is_nan(x[1]) && !is_inf(x[1])) {
            x[0] = (C(1) - weight) * x[0] + weight * x[1];
            x[2] = (C(1) - weight) * x[2] + weight * variance;
        }
    }
};

template <class C> struct Descent {
    C rate, weight_decay;
    __device__ void operator()(C (&x)[2]) const { x[0] -= rate * (x[1] + weight_decay * x[0]); }
};

template <class C> struct Momentum {
    C rate, momentum, fresh, weight_decay;
    i32 nesterov;
    __device__ void operator()(C (&x)[3]) const {
        C g = x[1] + weight_decay * x[0];
        x[2] = momentum * x[2] + fresh * g;
        x[0] -= rate * (nesterov ? g + momentum * x[2] : x[2]);
    }
};

// The bias corrections are the sums of the weights in the running means so far.
template <class C> struct Adam {
    C rate, beta1, fresh1, beta2, fresh2, bias1, bias2, epsilon, weight_decay, shrink;
    __device__ void operator()(C (&x)[4]) const {
        C g = x[1] + weight_decay * x[0];
        x[2] = beta1 * x[2] + fresh1 * g;
        x[3] = beta2 * x[3] + fresh2 * g * g;
        x[0] = x[0] - shrink * x[0] - rate * (x[2] / bias1) / (sqrt(x[3] / bias2) + epsilon);
    }
};

// One bit for each operand that is only read.
template <class Rule> struct ReadOnly { static const u32 bits = 2; };
template <class C> struct ReadOnly<RunningStatistics<C>> { static const u32 bits = 10; };

// One update of W neighbours.
template <int W, int N, class Rule> DEVICE void step(T* const (&at)[N], u32 i, const Rule& rule) {
    Vec<T, W> values[N];
    for (int k = 0; k < N; k++) {
        values[k] = *(const Vec<T, W>*) (at[k] + i);
    }
    for (int w = 0; w < W; w++) {
        C x[N];
        for (int k = 0; k < N; k++) {
            x[k] = widen(values[k].at[w]);
        }
        rule(x);
        for (int k = 0; k < N; k++) {
            values[k].at[w] = narrow<T>(x[k]);
        }
    }
    for (int k = 0; k < N; k++) {
        if (!(ReadOnly<Rule>::bits >> k & 1)) {
            *(Vec<T, W>*) (at[k] + i) = values[k];
        }
    }
}

template <int N, class Rule> DEVICE void steps(const Table<N>& table, const Guard& guard, const Rule& rule) {
    if (!guard.holds()) {
        return;
    }
    u32 entry = 0;
    for (u32 end = ENTRIES > 1 ? table.entries : 1; end - entry > 1;) {
        u32 middle = (entry + end) / 2;
        if (table.first[middle] <= blockIdx.x) {
            entry = middle;
        } else {
            end = middle;
        }
    }
    u32 from = (blockIdx.x - table.first[entry]) * CHUNK;
    u32 count = table.count[entry] - from;
    count = count < CHUNK ? count : CHUNK;
    T* at[N];
    u64 bits = 0;
    for (int k = 0; k < N; k++) {
        at[k] = table.at[k][entry] + from;
        bits |= (u64) at[k];
    }
    u32 vectors = bits % (WIDTH * sizeof(T)) == 0 ? count / WIDTH : 0;
    for (u32 i = threadIdx.x; i < vectors; i += blockDim.x) {
        step<WIDTH>(at, i * WIDTH, rule);
    }
    for (u32 i = vectors * WIDTH + threadIdx.x; i < count; i += blockDim.x) {
        step<1>(at, i, rule);
    }
}

extern "C" __global__ void update(Table<OPERANDS> table, Guard guard, RULE<C> rule) { steps(table, guard, rule); }
