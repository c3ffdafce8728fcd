// Steps in place. Macros: type T, C to compute in, WIDTH of a vector. Operand 0 is the target, 1 the source or gradient,
// which stays as it is, those that follow are state.

struct Blend {
    C decay, weight;
    __device__ void operator()(C (&x)[2]) const { x[0] = decay * x[0] + weight * x[1]; }
};

struct Descent {
    C rate, weight_decay;
    __device__ void operator()(C (&x)[2]) const { x[0] -= rate * (x[1] + weight_decay * x[0]); }
};

struct Momentum {
    C rate, momentum, fresh, weight_decay;
    i32 nesterov;
    __device__ void operator()(C (&x)[3]) const {
        C g = x[1] + weight_decay * x[0];
        x[2] = momentum * x[2] + fresh * g;
        x[0] -= rate * (nesterov ? g + momentum * x[2] : x[2]);
    }
};

// Biases are what the running means have gathered of their weights so far.
struct Adam {
    C rate, beta1, fresh1, beta2, fresh2, bias1, bias2, epsilon, weight_decay, shrink;
    __device__ void operator()(C (&x)[4]) const {
        C g = x[1] + weight_decay * x[0];
        x[2] = beta1 * x[2] + fresh1 * g;
        x[3] = beta2 * x[3] + fresh2 * g * g;
        x[0] = x[0] - shrink * x[0] - rate * (x[2] / bias1) / (sqrt(x[3] / bias2) + epsilon);
    }
};

template <int W, int N, class Rule> DEVICE void update(T* const (&operands)[N], const Layout<N>& layout, Rule rule) {
    u32 i = (u32) THREAD * W;
    if (i >= layout.count) {
        return;
    }
    i64 at[N];
    layout.offsets(i, at);
    if (W > 1 && i + W <= layout.count) {
        Vec<T, W> values[N];
        for (int k = 0; k < N; k++) {
            values[k] = *(const Vec<T, W>*) (operands[k] + at[k]);
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
            if (k != 1) {
                *(Vec<T, W>*) (operands[k] + at[k]) = values[k];
            }
        }
        return;
    }
    for (u32 w = 0; w < W && i + w < layout.count; w++) {
        C x[N];
        for (int k = 0; k < N; k++) {
            x[k] = widen(operands[k][at[k] + w * layout.step(k)]);
        }
        rule(x);
        for (int k = 0; k < N; k++) {
            if (k != 1) {
                operands[k][at[k] + w * layout.step(k)] = narrow<T>(x[k]);
            }
        }
    }
}

extern "C" __global__ void blend_vectors(T* a, T* b, Layout<2> layout, Blend rule) {
    T* const operands[] = {a, b};
    update<WIDTH>(operands, layout, rule);
}

extern "C" __global__ void blend_scalars(T* a, T* b, Layout<2> layout, Blend rule) {
    T* const operands[] = {a, b};
    update<1>(operands, layout, rule);
}

extern "C" __global__ void descent_vectors(T* a, T* b, Layout<2> layout, Descent rule) {
    T* const operands[] = {a, b};
    update<WIDTH>(operands, layout, rule);
}

extern "C" __global__ void descent_scalars(T* a, T* b, Layout<2> layout, Descent rule) {
    T* const operands[] = {a, b};
    update<1>(operands, layout, rule);
}

extern "C" __global__ void momentum_vectors(T* a, T* b, T* c, Layout<3> layout, Momentum rule) {
    T* const operands[] = {a, b, c};
    update<WIDTH>(operands, layout, rule);
}

extern "C" __global__ void momentum_scalars(T* a, T* b, T* c, Layout<3> layout, Momentum rule) {
    T* const operands[] = {a, b, c};
    update<1>(operands, layout, rule);
}

extern "C" __global__ void adam_vectors(T* a, T* b, T* c, T* d, Layout<4> layout, Adam rule) {
    T* const operands[] = {a, b, c, d};
    update<WIDTH>(operands, layout, rule);
}

extern "C" __global__ void adam_scalars(T* a, T* b, T* c, T* d, Layout<4> layout, Adam rule) {
    T* const operands[] = {a, b, c, d};
    update<1>(operands, layout, rule);
}
