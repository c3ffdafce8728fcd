// A fake of cuDNN's recurrent layers: one layer in one direction, with sequences of equal length. Cell 2 is an LSTM, 3
// a GRU, others are plain.

// A tensor of three dimensions.
struct Images { int type, n, c, h; };
struct Layer { int cell, biased, type, inputs, units, algorithm; };
struct Sequences { int type, steps, batch, width; };
struct Dropout { bool set; };

static const int PIECE_ALIGNMENT = 64;

static std::atomic<long> rnn_objects;
static std::atomic<int> layer_failure, layer_failures;

// Makes the next layers fail with a status, when they are planned or run.
API void fake_layers_fail(int status, int times) { layer_failure = status; layer_failures = times; }

// The number of existing descriptors of layers and their tensors.
API long fake_layers() { return rnn_objects; }

template <typename T> static int rnn_create(T** p) {
    *p = new T {};
    rnn_objects++;
    return DNN_OK;
}

template <typename T> static int rnn_destroy(T* p) {
    delete p;
    rnn_objects--;
    return DNN_OK;
}

static int rnn_type(int type) { return type == 1 ? F64 : memory_type(type); }

API int cudnnCreateTensorDescriptor(Images** p) { return rnn_create(p); }

static int gates_of(const Layer* layer) { return layer->cell == 2 ? 4 : layer->cell == 3 ? 3 : 1; }

API int cudnnCreateDropoutDescriptor(Dropout** p) { return rnn_create(p); }

API int cudnnSetDropoutDescriptor(Dropout* p, Dnn*, float dropout, void* states, size_t bytes, unsigned long long) {
    REQUIRE(dropout == 0 && states == nullptr && bytes == 0, DNN_BAD);
    p->set = true;
    return DNN_OK;
}

API int cudnnSetTensorNdDescriptor(Images* p, int type, int count, const int* sizes, const int* strides) {
    REQUIRE(rnn_type(type) >= 0 && count == 3 && sizes[0] == 1 && sizes[1] > 0 && sizes[2] > 0, DNN_BAD);
    REQUIRE(strides[2] == 1 && strides[1] == sizes[2] && strides[0] == sizes[1] * sizes[2], DNN_BAD);
    *p = Images {rnn_type(type), 1, sizes[1], sizes[2]};
    return DNN_OK;
}

API int cudnnDestroyTensorDescriptor(Images* p) { return rnn_destroy(p); }

API int cudnnDestroyDropoutDescriptor(Dropout* p) { return rnn_destroy(p); }

API int cudnnCreateRNNDescriptor(Layer** p) { return rnn_create(p); }

API int cudnnSetRNNDescriptor_v8(Layer* p, int algorithm, int cell, int bias, int direction, int input, int type,
        int precision, int math, int inputs, int units, int projection, int layers, Dropout* dropout, unsigned flags) {
    REQUIRE((algorithm == 0 || algorithm == 3) && cell >= 0 && cell <= 3 && (bias == 0 || bias == 2), DNN_BAD);
    REQUIRE(algorithm == 0 || (type != 1 && bias == 2 && units <= (cell < 2 ? 384 : 192)), DNN_BAD);
    REQUIRE(direction == 0 && input == 0 && layers == 1 && flags == 1, DNN_BAD);
    REQUIRE(rnn_type(type) >= 0 && precision == (type == 1 ? 1 : 0), DNN_BAD);
    REQUIRE(math == (type == 0 ? 3 : type == 1 ? 0 : 1), DNN_BAD);
    REQUIRE(inputs > 0 && units > 0 && projection == units && dropout->set, DNN_BAD);
    *p = Layer {cell, bias == 2, rnn_type(type), inputs, units, algorithm};
    return DNN_OK;
}

API int cudnnDestroyRNNDescriptor(Layer* p) { return rnn_destroy(p); }

API int cudnnCreateRNNDataDescriptor(Sequences** p) { return rnn_create(p); }

API int cudnnDestroyRNNDataDescriptor(Sequences* p) { return rnn_destroy(p); }

API int cudnnSetRNNDataDescriptor(Sequences* p, int type, int layout, int steps, int batch, int width,
        const int* lengths, void* padding) {
    REQUIRE(rnn_type(type) >= 0 && layout == 0 && steps > 0 && batch > 0 && width > 0 && padding == nullptr, DNN_BAD);
    for (int n = 0; n < batch; n++) {
        REQUIRE(lengths[n] == steps, DNN_BAD);
    }
    *p = Sequences {rnn_type(type), steps, batch, width};
    return DNN_OK;
}

// Matrices and biases are stored from the last to the first, each bias before its matrix, with gaps between.
static size_t place(const Layer* layer, int wanted, bool bias) {
    size_t at = 0;
    for (int k = 2 * gates_of(layer) - 1; k >= 0; k--) {
        for (bool vector : {true, false}) {
            if (k == wanted && vector == bias) {
                return at;
            }
            size_t count = (size_t) layer->units * (vector ? 1 : k < gates_of(layer) ? layer->inputs : layer->units);
            at += (count * size_of(layer->type) + 2 * PIECE_ALIGNMENT - 1) / PIECE_ALIGNMENT * PIECE_ALIGNMENT;
        }
    }
    return at;
}

API int cudnnGetRNNWeightSpaceSize(Dnn*, Layer* layer, size_t* bytes) {
    if (layer_failures > 0) {
        layer_failures--;
        return layer_failure;
    }
    *bytes = place(layer, -1, false);
    return DNN_OK;
}

API int cudnnGetRNNWeightParams(Dnn*, Layer* layer, int number, size_t bytes, const void* space, int id,
        Images* matrix, void** matrix_at, Images* vector, void** vector_at) {
    REQUIRE(number == 0 && id >= 0 && id < 2 * gates_of(layer) && space != nullptr, DNN_BAD);
    REQUIRE(bytes == place(layer, -1, false) && matrix != vector, DNN_BAD);
    *matrix = Images {layer->type, 1, layer->units, id < gates_of(layer) ? layer->inputs : layer->units};
    *vector = Images {layer->type, 1, layer->units, 1};
    *matrix_at = (char*) space + place(layer, id, false);
    *vector_at = layer->biased ? (char*) space + place(layer, id, true) : nullptr;
    return DNN_OK;
}

// The reserve: a header, then for each step, sequence and unit the gates, c and a GRU's product for n. The backward
// pass overwrites the gates with the slopes of the sums from x, and the last value with the slope of a GRU's product
// for n.
enum { KEPT_CELL = 4, KEPT_PRODUCT = 5, KEPT = 6 };
struct Kept { double stage, weights, steps, batch; };
static const double WRITTEN = 4711, WENT_BACK = 4712;

static size_t states_bytes(const Layer* layer, int batch) { return (size_t) 3 * batch * layer->units * sizeof(double); }

static size_t kept_bytes(const Layer* layer, const Sequences* x) {
    return sizeof(Kept) + (size_t) KEPT * x->steps * x->batch * layer->units * sizeof(double) + layer->algorithm * 64;
}

static double* kept_values(void* reserve) { return (double*) ((Kept*) reserve + 1); }

// A checksum of the weights, gaps included, to detect changes.
static double digest(const void* weights, size_t bytes) {
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; i++) {
        sum = sum * 31 + ((const unsigned char*) weights)[i];
    }
    return (double) (sum >> 12);
}

API int cudnnGetRNNTempSpaceSizes(Dnn*, Layer* layer, int mode, Sequences* x, size_t* work, size_t* reserve) {
    REQUIRE((mode == 0 || mode == 1) && x->width == layer->inputs, DNN_BAD);
    *work = states_bytes(layer, x->batch);
    *reserve = mode == 1 ? kept_bytes(layer, x) : 0;
    return DNN_OK;
}

// The requirements of all calls.
static int check_layer(Dnn* handle, const Layer* layer, const int* device_lengths, const Sequences* dx,
        const Sequences* dy, const Images* dh, size_t weight_bytes, const void* weights, size_t work_bytes,
        const void* work) {
    if (layer_failures > 0) {
        layer_failures--;
        return layer_failure;
    }
    REQUIRE(handle->stream != nullptr && device_lengths == nullptr, DNN_BAD);
    REQUIRE(dx->type == layer->type && dy->type == layer->type && dh->type == layer->type, DNN_BAD);
    REQUIRE(dx->width == layer->inputs && dy->width == layer->units, DNN_BAD);
    REQUIRE(dy->batch == dx->batch && dy->steps == dx->steps && dh->c == dx->batch && dh->h == layer->units, DNN_BAD);
    REQUIRE(weight_bytes == place(layer, -1, false) && aligned(weights, PIECE_ALIGNMENT), DNN_BAD);
    REQUIRE(work_bytes >= states_bytes(layer, dx->batch) && work != nullptr && work != weights, DNN_BAD);
    return DNN_OK;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

// The sum of a row of a matrix and its bias.
static double row_sum(const Layer* layer, const char* weights, int id, int row, const void* x, int type, int64_t at,
        int width) {
    double sum = layer->biased ? get(layer->type, weights + place(layer, id, true), row) : 0;
    for (int i = 0; i < width; i++) {
        sum += get(layer->type, weights + place(layer, id, false), (int64_t) row * width + i) * get(type, x, at + i);
    }
    return sum;
}

API int cudnnRNNForward(Dnn* handle, Layer* layer, int mode, const int* device_lengths, Sequences* dx, const void* x,
        Sequences* dy, void* y, Images* dh, const void* hx, void* hy, Images* dc, const void* cx, void* cy,
        size_t weight_bytes, const void* weights, size_t work_bytes, void* work, size_t reserve_bytes, void* reserve) {
    int units = layer->units, batch = dx->batch, gates = gates_of(layer);
    int bad = check_layer(handle, layer, device_lengths, dx, dy, dh, weight_bytes, weights, work_bytes, work);
    if (bad != DNN_OK) {
        return bad;
    }
    REQUIRE(dc->c == batch && dc->h == units && (mode == 0 || mode == 1), DNN_BAD);
    REQUIRE(reserve_bytes == (mode == 1 ? kept_bytes(layer, dx) : 0) && (mode == 1) == (reserve != nullptr), DNN_BAD);
    REQUIRE(x != nullptr && y != nullptr && hx != nullptr && hy != nullptr, DNN_BAD);
    REQUIRE((layer->cell == 2) == (cx != nullptr) && (layer->cell == 2) == (cy != nullptr), DNN_BAD);
    // Refused, so that both fallbacks are tested: the other algorithm, and no library.
    if (layer->inputs == 17 || (layer->units == 16 && layer->algorithm == 3)) {
        return DNN_UNSUPPORTED;
    }
    return on(handle->stream, [=, cell = *layer, sequences = *dx]() -> int {
        const Layer* layer = &cell;
        const Sequences* dx = &sequences;
        int64_t all = (int64_t) batch * units;
        double* h = (double*) work;
        double* c = h + all;
        double* next = c + all;
        double* kept = mode == 1 ? kept_values(reserve) : nullptr;
        if (kept) {
            *(Kept*) reserve = Kept {WRITTEN, digest(weights, weight_bytes), (double) dx->steps, (double) batch};
        }
        for (int64_t i = 0; i < all; i++) {
            h[i] = get(layer->type, hx, i);
            c[i] = cx ? get(layer->type, cx, i) : 0;
        }
        for (int t = 0; t < dx->steps; t++) {
            for (int n = 0; n < batch; n++) for (int j = 0; j < units; j++) {
                double a[4], b[4];
                for (int g = 0; g < gates; g++) {
                    a[g] = row_sum(layer, (const char*) weights, g, j, x, layer->type,
                            ((int64_t) t * batch + n) * layer->inputs, layer->inputs);
                    b[g] = row_sum(layer, (const char*) weights, gates + g, j, h, F64, (int64_t) n * units, units);
                }
                int64_t at = (int64_t) n * units + j;
                double gate[4];
                for (int g = 0; g < gates; g++) {
                    double sum = a[g] + b[g];
                    gate[g] = layer->cell == 3 && g == 2 ? tanh(a[2] + gate[0] * b[2])
                            : layer->cell >= 2 ? (layer->cell == 2 && g == 2 ? tanh(sum) : sigmoid(sum))
                            : layer->cell == 1 ? tanh(sum) : sum > 0 ? sum : 0;
                }
                if (layer->cell == 2) {
                    c[at] = gate[1] * c[at] + gate[0] * gate[2];
                }
                next[at] = layer->cell == 2 ? gate[3] * tanh(c[at])
                        : layer->cell == 3 ? (1 - gate[1]) * gate[2] + gate[1] * h[at] : gate[0];
                if (kept) {
                    double* k = kept + (t * all + at) * KEPT;
                    for (int g = 0; g < gates; g++) {
                        k[g] = gate[g];
                    }
                    k[KEPT_CELL] = c[at];
                    k[KEPT_PRODUCT] = gates == 3 ? b[2] : 0;
                }
            }
            for (int64_t i = 0; i < all; i++) {
                h[i] = next[i];
                put(layer->type, y, t * all + i, h[i]);
            }
        }
        for (int64_t i = 0; i < all; i++) {
            put(layer->type, hy, i, h[i]);
            if (cy) {
                put(layer->type, cy, i, c[i]);
            }
        }
        computed++;
        return DNN_OK;
    });
}

// Element i of the state before step t.
static double before(const Layer* layer, const void* first, const void* y, int t, int64_t all, int64_t i) {
    return t == 0 ? get(layer->type, first, i) : get(layer->type, y, (t - 1) * all + i);
}

// Row `row` of the slopes of all gates, times a column of the matrices starting at `first`.
static double slopes_times(const Layer* layer, const double* slopes, bool by_h, const void* weights, int column) {
    int gates = gates_of(layer), width = by_h ? layer->units : layer->inputs;
    double sum = 0;
    for (int g = 0; g < gates; g++) {
        const void* matrix = (const char*) weights + place(layer, by_h ? gates + g : g, false);
        for (int j = 0; j < layer->units; j++) {
            sum += slopes[j * KEPT + (by_h && layer->cell == 3 && g == 2 ? (int) KEPT_PRODUCT : g)]
                    * get(layer->type, matrix, (int64_t) j * width + column);
        }
    }
    return sum;
}

// Overwrites the reserve, as the real library does: a second call with the same reserve would be wrong.
API int cudnnRNNBackwardData_v8(Dnn* handle, Layer* layer, const int* device_lengths, Sequences* dsy, const void* y,
        const void* dy, Sequences* dsx, void* dx, Images* dsh, const void* hx, const void* dhy, void* dhx, Images* dsc,
        const void* cx, const void* dcy, void* dcx, size_t weight_bytes, const void* weights, size_t work_bytes,
        void* work, size_t reserve_bytes, void* reserve) {
    int units = layer->units, batch = dsx->batch;
    int bad = check_layer(handle, layer, device_lengths, dsx, dsy, dsh, weight_bytes, weights, work_bytes, work);
    if (bad != DNN_OK) {
        return bad;
    }
    Kept* head = (Kept*) reserve;
    REQUIRE(reserve_bytes == kept_bytes(layer, dsx) && head != nullptr, DNN_BAD);
    REQUIRE(y && dy && dx && hx && dhy && dhx && y != dy, DNN_BAD);
    bool lstm = layer->cell == 2;
    REQUIRE(lstm == (cx != nullptr) && lstm == (dcy != nullptr) && lstm == (dcx != nullptr), DNN_BAD);
    REQUIRE(dsc->c == batch && dsc->h == units, DNN_BAD);
    if (batch == 9) {
        return DNN_UNSUPPORTED; // so that the fallback is tested too
    }
    return on(handle->stream, [=, cell = *layer, sequences = *dsx]() -> int {
        const Layer* layer = &cell;
        const Sequences* dsx = &sequences;
        REQUIRE(head->stage == WRITTEN && head->steps == dsx->steps && head->batch == batch, DNN_BAD);
        REQUIRE(head->weights == digest(weights, weight_bytes), DNN_BAD);
        int64_t all = (int64_t) batch * units;
        double* dh = (double*) work;
        double* dc = dh + all;
        for (int64_t i = 0; i < all; i++) {
            dh[i] = get(layer->type, dhy, i);
            dc[i] = lstm ? get(layer->type, dcy, i) : 0;
        }
        for (int t = dsx->steps - 1; t >= 0; t--) {
            double* row = kept_values(reserve) + t * all * KEPT;
            for (int64_t i = 0; i < all; i++) {
                double* k = row + i * KEPT;
                double d = dh[i] + get(layer->type, dy, t * all + i), past = 0;
                if (lstm) {
                    double c = k[KEPT_CELL], in = k[0], forget = k[1], g = k[2], out = k[3];
                    double c_before = t == 0 ? get(layer->type, cx, i) : *(k - all * KEPT + KEPT_CELL);
                    double slope = dc[i] + d * out * (1 - tanh(c) * tanh(c));
                    k[0] = slope * g * in * (1 - in);
                    k[1] = slope * c_before * forget * (1 - forget);
                    k[2] = slope * in * (1 - g * g);
                    k[3] = d * tanh(c) * out * (1 - out);
                    dc[i] = slope * forget;
                } else if (layer->cell == 3) {
                    double r = k[0], z = k[1], n = k[2], product = k[KEPT_PRODUCT];
                    k[2] = d * (1 - z) * (1 - n * n);
                    k[1] = d * (before(layer, hx, y, t, all, i) - n) * z * (1 - z);
                    k[0] = k[2] * product * r * (1 - r);
                    k[KEPT_PRODUCT] = k[2] * r;
                    past = d * z;
                } else {
                    k[0] = layer->cell == 1 ? d * (1 - k[0] * k[0]) : k[0] > 0 ? d : 0;
                }
                dh[i] = past;
            }
            for (int n = 0; n < batch; n++) {
                const double* slopes = row + (int64_t) n * units * KEPT;
                for (int i = 0; i < layer->inputs; i++) {
                    put(layer->type, dx, ((int64_t) t * batch + n) * layer->inputs + i,
                            slopes_times(layer, slopes, false, weights, i));
                }
                for (int j = 0; j < units; j++) {
                    dh[(int64_t) n * units + j] += slopes_times(layer, slopes, true, weights, j);
                }
            }
        }
        for (int64_t i = 0; i < all; i++) {
            put(layer->type, dhx, i, dh[i]);
            if (lstm) {
                put(layer->type, dcx, i, dc[i]);
            }
        }
        head->stage = WENT_BACK;
        return DNN_OK;
    });
}

// Adds to the gradients of the weights. Starling clears them first.
API int cudnnRNNBackwardWeights_v8(Dnn* handle, Layer* layer, int add, const int* device_lengths, Sequences* dsx,
        const void* x, Images* dsh, const void* hx, Sequences* dsy, const void* y, size_t weight_bytes, void* slopes,
        size_t work_bytes, void* work, size_t reserve_bytes, void* reserve) {
    int units = layer->units, batch = dsx->batch, gates = gates_of(layer);
    int bad = check_layer(handle, layer, device_lengths, dsx, dsy, dsh, weight_bytes, slopes, work_bytes, work);
    if (bad != DNN_OK) {
        return bad;
    }
    Kept* head = (Kept*) reserve;
    REQUIRE(add == 0 && x && hx && y, DNN_BAD);
    REQUIRE(reserve_bytes == kept_bytes(layer, dsx) && head != nullptr, DNN_BAD);
    if (dsx->steps == 9) {
        return DNN_UNSUPPORTED; // so that the fallback is tested too
    }
    return on(handle->stream, [=, cell = *layer, sequences = *dsx]() -> int {
        const Layer* layer = &cell;
        const Sequences* dsx = &sequences;
        REQUIRE(head->stage == WENT_BACK && head->steps == dsx->steps && head->batch == batch, DNN_BAD);
        for (size_t i = 0; i < weight_bytes; i++) {
            REQUIRE(((const char*) slopes)[i] == 0, DNN_BAD);
        }
        int64_t all = (int64_t) batch * units;
        const double* kept = kept_values(reserve);
        for (int id = 0; id < 2 * gates; id++) {
            bool by_h = id >= gates;
            int width = by_h ? units : layer->inputs;
            int slot = layer->cell == 3 && id == 5 ? (int) KEPT_PRODUCT : id % gates;
            void* matrix = (char*) slopes + place(layer, id, false);
            void* bias = (char*) slopes + place(layer, id, true);
            for (int j = 0; j < units; j++) {
                double whole = 0;
                std::vector<double> sums(width);
                for (int t = 0; t < dsx->steps; t++) for (int n = 0; n < batch; n++) {
                    double slope = kept[(t * all + (int64_t) n * units + j) * KEPT + slot];
                    whole += slope;
                    for (int i = 0; i < width; i++) {
                        sums[i] += slope * (by_h ? before(layer, hx, y, t, all, (int64_t) n * units + i)
                                : get(layer->type, x, ((int64_t) t * batch + n) * width + i));
                    }
                }
                for (int i = 0; i < width; i++) {
                    int64_t at = (int64_t) j * width + i;
                    put(layer->type, matrix, at, get(layer->type, matrix, at) + sums[i]);
                }
                if (layer->biased) {
                    put(layer->type, bias, j, get(layer->type, bias, j) + whole);
                }
            }
        }
        computed++;
        return DNN_OK;
    });
}
