// cuDNN's recurrent layers, played: one layer in one direction, all sequences of one length, without gradients.

struct Layer { int cell, biased, type, inputs, units; };
struct Sequences { int type, steps, batch, width; };
struct Dropout { bool set; };

static const int PIECE_ALIGNMENT = 64;

static int rnn_type(int type) { return type == 1 ? F64 : dnn_type(type); }

static int gates_of(const Layer* layer) { return layer->cell == 2 ? 4 : layer->cell == 3 ? 3 : 1; }

API int cudnnCreateDropoutDescriptor(Dropout** p) { *p = new Dropout {}; return DNN_OK; }

API int cudnnSetDropoutDescriptor(Dropout* p, Dnn*, float dropout, void* states, size_t bytes, unsigned long long) {
    REQUIRE(dropout == 0 && states == nullptr && bytes == 0, DNN_BAD);
    p->set = true;
    return DNN_OK;
}

API int cudnnSetTensorNdDescriptor(Images* p, int type, int count, const int* sizes, const int* strides) {
    REQUIRE(rnn_type(type) >= 0 && count == 3 && sizes[0] == 1 && sizes[1] > 0 && sizes[2] > 0, DNN_BAD);
    REQUIRE(strides[2] == 1 && strides[1] == sizes[2] && strides[0] == sizes[1] * sizes[2], DNN_BAD);
    *p = Images {rnn_type(type), 0, 1, sizes[1], sizes[2], 1};
    return DNN_OK;
}

API int cudnnDestroyTensorDescriptor(Images* p) { delete p; return DNN_OK; }

API int cudnnCreateRNNDescriptor(Layer** p) { *p = new Layer {}; return DNN_OK; }

API int cudnnSetRNNDescriptor_v8(Layer* p, int algorithm, int cell, int bias, int direction, int input, int type,
        int precision, int math, int inputs, int units, int projection, int layers, Dropout* dropout, unsigned flags) {
    REQUIRE(algorithm == 0 && cell >= 0 && cell <= 3 && (bias == 0 || bias == 2), DNN_BAD);
    REQUIRE(direction == 0 && input == 0 && layers == 1 && flags == 1, DNN_BAD);
    REQUIRE(rnn_type(type) >= 0 && precision == (type == 1 ? 1 : 0), DNN_BAD);
    REQUIRE(math == (type == 0 ? 3 : type == 1 ? 0 : 1), DNN_BAD);
    REQUIRE(inputs > 0 && units > 0 && projection == units && dropout->set, DNN_BAD);
    *p = Layer {cell, bias == 2, rnn_type(type), inputs, units};
    return DNN_OK;
}

API int cudnnCreateRNNDataDescriptor(Sequences** p) { *p = new Sequences {}; return DNN_OK; }

API int cudnnSetRNNDataDescriptor(Sequences* p, int type, int layout, int steps, int batch, int width,
        const int* lengths, void* padding) {
    REQUIRE(rnn_type(type) >= 0 && layout == 0 && steps > 0 && batch > 0 && width > 0 && padding == nullptr, DNN_BAD);
    for (int n = 0; n < batch; n++) {
        REQUIRE(lengths[n] == steps, DNN_BAD);
    }
    *p = Sequences {rnn_type(type), steps, batch, width};
    return DNN_OK;
}

// Matrices and biases lie from the last to the first, each bias before its matrix, with gaps between.
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
    *bytes = place(layer, -1, false);
    return DNN_OK;
}

API int cudnnGetRNNWeightParams(Dnn*, Layer* layer, int number, size_t bytes, const void* space, int id,
        Images* matrix, void** matrix_at, Images* vector, void** vector_at) {
    REQUIRE(number == 0 && id >= 0 && id < 2 * gates_of(layer) && space != nullptr, DNN_BAD);
    REQUIRE(bytes == place(layer, -1, false) && matrix != vector, DNN_BAD);
    *matrix = Images {layer->type, 0, 1, layer->units, id < gates_of(layer) ? layer->inputs : layer->units, 1};
    *vector = Images {layer->type, 0, 1, layer->units, 1, 1};
    *matrix_at = (char*) space + place(layer, id, false);
    *vector_at = layer->biased ? (char*) space + place(layer, id, true) : nullptr;
    return DNN_OK;
}

static size_t states_bytes(const Layer* layer, int batch) { return (size_t) 3 * batch * layer->units * sizeof(double); }

API int cudnnGetRNNTempSpaceSizes(Dnn*, Layer* layer, int mode, Sequences* x, size_t* work, size_t* reserve) {
    REQUIRE(mode == 0 && x->width == layer->inputs, DNN_BAD);
    *work = states_bytes(layer, x->batch);
    *reserve = 0;
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
    REQUIRE(handle->stream != nullptr && mode == 0 && device_lengths == nullptr, DNN_BAD);
    REQUIRE(dx->type == layer->type && dy->type == layer->type && dh->type == layer->type, DNN_BAD);
    REQUIRE(dx->width == layer->inputs && dy->width == units && dy->batch == batch && dy->steps == dx->steps, DNN_BAD);
    REQUIRE(dh->c == batch && dh->h == units && dc->c == batch && dc->h == units, DNN_BAD);
    REQUIRE(weight_bytes == place(layer, -1, false) && aligned(weights, PIECE_ALIGNMENT), DNN_BAD);
    REQUIRE(work_bytes >= states_bytes(layer, batch) && work != nullptr, DNN_BAD);
    REQUIRE(reserve_bytes == 0 && reserve == nullptr, DNN_BAD);
    REQUIRE((layer->cell == 2) == (cx != nullptr) && (layer->cell == 2) == (cy != nullptr), DNN_BAD);
    if (layer->inputs == 17) {
        return DNN_UNSUPPORTED; // so that what is done then is tried, too
    }
    int64_t all = (int64_t) batch * units;
    double* h = (double*) work;
    double* c = h + all;
    double* next = c + all;
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
            if (layer->cell == 2) {
                c[at] = sigmoid(a[1] + b[1]) * c[at] + sigmoid(a[0] + b[0]) * tanh(a[2] + b[2]);
                next[at] = sigmoid(a[3] + b[3]) * tanh(c[at]);
            } else if (layer->cell == 3) {
                double update = sigmoid(a[1] + b[1]);
                next[at] = (1 - update) * tanh(a[2] + sigmoid(a[0] + b[0]) * b[2]) + update * h[at];
            } else {
                double sum = a[0] + b[0];
                next[at] = layer->cell == 1 ? tanh(sum) : sum > 0 ? sum : 0;
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
}
