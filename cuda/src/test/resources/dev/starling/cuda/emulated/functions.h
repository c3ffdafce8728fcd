// cuDNN's single functions, played: average pooling and softmax, from descriptors of four dimensions.

struct Images { int type, last, n, c, h, w; };
struct Window { int mode, kernel[2], padding[2], stride[2]; };

static int dnn_type(int type) { return type == 0 ? F32 : type == 2 ? F16 : type == 9 ? BF16 : -1; }

API int cudnnCreateTensorDescriptor(Images** p) { *p = new Images {}; return DNN_OK; }

API int cudnnDestroyPoolingDescriptor(Window* p) { delete p; return DNN_OK; }

API int cudnnSetTensor4dDescriptor(Images* p, int format, int type, int n, int c, int h, int w) {
    REQUIRE((format == 0 || format == 1) && dnn_type(type) >= 0 && n > 0 && c > 0 && h > 0 && w > 0, DNN_BAD);
    *p = Images {dnn_type(type), format, n, c, h, w};
    return DNN_OK;
}

API int cudnnCreatePoolingDescriptor(Window** p) { *p = new Window {}; return DNN_OK; }

API int cudnnSetPooling2dDescriptor(Window* p, int mode, int nan, int kh, int kw, int ph, int pw, int sh, int sw) {
    REQUIRE((mode == 1 || mode == 2) && nan == 1 && ph < kh && pw < kw, DNN_BAD);
    *p = Window {mode, {kh, kw}, {ph, pw}, {sh, sw}};
    return DNN_OK;
}

static int64_t place(const Images* x, int n, int c, int h, int w) {
    return x->last ? ((int64_t) (n * x->h + h) * x->w + w) * x->c + c
            : ((int64_t) (n * x->c + c) * x->h + h) * x->w + w;
}

static int check(Dnn* handle, const Window* p, const float* alpha, const float* beta, const Images* x,
        const Images* y) {
    REQUIRE(handle->stream != nullptr && *alpha == 1 && *beta == 0, DNN_BAD);
    REQUIRE(x->type == y->type && x->n == y->n && x->c == y->c, DNN_BAD);
    REQUIRE(y->h == (x->h + 2 * p->padding[0] - p->kernel[0]) / p->stride[0] + 1, DNN_BAD);
    REQUIRE(y->w == (x->w + 2 * p->padding[1] - p->kernel[1]) / p->stride[1] + 1, DNN_BAD);
    return x->h == 1 ? DNN_UNSUPPORTED : DNN_OK; // so that what is done then is tried, too
}

// Calls take(element of x, its share) for each element of the window at a place of y.
template <class Take> static void each(const Window* p, const Images* x, int n, int c, int h, int w, Take take) {
    std::vector<int64_t> inside;
    for (int r = 0; r < p->kernel[0]; r++) for (int s = 0; s < p->kernel[1]; s++) {
        int row = h * p->stride[0] - p->padding[0] + r, column = w * p->stride[1] - p->padding[1] + s;
        if (row >= 0 && row < x->h && column >= 0 && column < x->w) {
            inside.push_back(place(x, n, c, row, column));
        }
    }
    for (int64_t i : inside) {
        take(i, 1.0 / (p->mode == 1 ? p->kernel[0] * p->kernel[1] : (double) inside.size()));
    }
}

API int cudnnPoolingForward(Dnn* handle, Window* p, const float* alpha, Images* dx, const void* x, const float* beta,
        Images* dy, void* y) {
    if (int error = check(handle, p, alpha, beta, dx, dy)) {
        return error;
    }
    return on(handle->stream, [=, window = *p, from = *dx, to = *dy] {
        for (int n = 0; n < to.n; n++) for (int c = 0; c < to.c; c++)
        for (int h = 0; h < to.h; h++) for (int w = 0; w < to.w; w++) {
            double sum = 0;
            each(&window, &from, n, c, h, w, [&](int64_t i, double share) { sum += get(from.type, x, i) * share; });
            put(to.type, y, place(&to, n, c, h, w), sum);
        }
        computed++;
        return DNN_OK;
    });
}

API int cudnnPoolingBackward(Dnn* handle, Window* p, const float* alpha, Images* dy, const void* y, Images* dg,
        const void* g, Images* dx, const void* x, const float* beta, Images* dr, void* result) {
    if (int error = check(handle, p, alpha, beta, dx, dy)) {
        return error;
    }
    REQUIRE(y != nullptr && x != nullptr && dg->h == dy->h && dg->w == dy->w && dr->h == dx->h && dr->w == dx->w,
            DNN_BAD);
    REQUIRE(dg->n == dy->n && dg->c == dy->c && dr->type == dx->type && dr->last == dx->last, DNN_BAD);
    return on(handle->stream, [=, window = *p, to = *dx, from = *dg] {
        std::vector<double> sums((size_t) to.n * to.c * to.h * to.w);
        for (int n = 0; n < from.n; n++) for (int c = 0; c < from.c; c++)
        for (int h = 0; h < from.h; h++) for (int w = 0; w < from.w; w++) {
            double value = get(from.type, g, place(&from, n, c, h, w));
            each(&window, &to, n, c, h, w, [&](int64_t i, double share) { sums[i] += value * share; });
        }
        for (size_t i = 0; i < sums.size(); i++) {
            put(to.type, result, i, sums[i]);
        }
        computed++;
        return DNN_OK;
    });
}

// Calls take(first element, distance of neighbours, how many) for each line.
template <class Take> static int lines(Dnn* handle, int algorithm, int mode, const float* alpha, const float* beta,
        const Images* x, const Images* y, Take take) {
    REQUIRE(handle->stream != nullptr && *alpha == 1 && *beta == 0 && (algorithm == 1 || algorithm == 2), DNN_BAD);
    REQUIRE(x->type == y->type && x->n == y->n && x->c == y->c && x->h == y->h && x->w == y->w, DNN_BAD);
    REQUIRE(!x->last && (mode == 1 || mode == 0), DNN_BAD);
    if (x->c == 3) {
        return DNN_UNSUPPORTED; // so that what is done then is tried, too
    }
    int64_t inner = mode == 1 ? (int64_t) x->h * x->w : 1, size = mode == 1 ? x->c : (int64_t) x->c * x->h * x->w;
    return on(handle->stream, [=, count = x->n * inner] {
        for (int64_t i = 0; i < count; i++) {
            take(i / inner * inner * size + i % inner, inner, size);
        }
        computed++;
        return DNN_OK;
    });
}

API int cudnnSoftmaxForward(Dnn* handle, int algorithm, int mode, const float* alpha, Images* dx, const void* x,
        const float* beta, Images* dy, void* y) {
    auto take = [=, type = dx->type](int64_t first, int64_t step, int64_t size) {
        double greatest = -INFINITY, sum = 0;
        for (int64_t i = 0; i < size; i++) {
            greatest = fmax(greatest, get(type, x, first + i * step));
        }
        for (int64_t i = 0; i < size; i++) {
            sum += exp(get(type, x, first + i * step) - greatest);
        }
        for (int64_t i = 0; i < size; i++) {
            double log_value = get(type, x, first + i * step) - greatest - log(sum);
            put(type, y, first + i * step, algorithm == 2 ? log_value : exp(log_value));
        }
    };
    return lines(handle, algorithm, mode, alpha, beta, dx, dy, take);
}

API int cudnnSoftmaxBackward(Dnn* handle, int algorithm, int mode, const float* alpha, Images* dy, const void* y,
        Images* dg, const void* g, const float* beta, Images* dx, void* x) {
    REQUIRE(dg->type == dy->type && dg->n == dy->n && dg->c == dy->c, DNN_BAD);
    auto take = [=, type = dy->type](int64_t first, int64_t step, int64_t size) {
        double sum = 0;
        for (int64_t i = 0; i < size; i++) {
            double value = get(type, g, first + i * step);
            sum += algorithm == 2 ? value : value * get(type, y, first + i * step);
        }
        for (int64_t i = 0; i < size; i++) {
            double result = get(type, y, first + i * step), value = get(type, g, first + i * step);
            put(type, x, first + i * step, algorithm == 2 ? value - exp(result) * sum : result * (value - sum));
        }
    };
    return lines(handle, algorithm, mode, alpha, beta, dy, dx, take);
}
