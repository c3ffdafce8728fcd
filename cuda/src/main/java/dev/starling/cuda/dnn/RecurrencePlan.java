package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_BFLOAT16;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_DOUBLE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_FLOAT;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DATA_HALF;
import static org.bytedeco.cuda.global.cudnn.CUDNN_DEFAULT_MATH;
import static org.bytedeco.cuda.global.cudnn.CUDNN_FMA_MATH;
import static org.bytedeco.cuda.global.cudnn.CUDNN_FWD_MODE_INFERENCE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_GRU;
import static org.bytedeco.cuda.global.cudnn.CUDNN_LINEAR_INPUT;
import static org.bytedeco.cuda.global.cudnn.CUDNN_LSTM;
import static org.bytedeco.cuda.global.cudnn.CUDNN_RNN_ALGO_STANDARD;
import static org.bytedeco.cuda.global.cudnn.CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
import static org.bytedeco.cuda.global.cudnn.CUDNN_RNN_DOUBLE_BIAS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_RNN_NO_BIAS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_RNN_PADDED_IO_ENABLED;
import static org.bytedeco.cuda.global.cudnn.CUDNN_RNN_RELU;
import static org.bytedeco.cuda.global.cudnn.CUDNN_RNN_TANH;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TENSOR_OP_MATH;
import static org.bytedeco.cuda.global.cudnn.CUDNN_UNIDIRECTIONAL;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateDropoutDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateRNNDataDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateRNNDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnCreateTensorDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnDestroyTensorDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnGetRNNTempSpaceSizes;
import static org.bytedeco.cuda.global.cudnn.cudnnGetRNNWeightParams;
import static org.bytedeco.cuda.global.cudnn.cudnnGetRNNWeightSpaceSize;
import static org.bytedeco.cuda.global.cudnn.cudnnSetDropoutDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnSetRNNDataDescriptor;
import static org.bytedeco.cuda.global.cudnn.cudnnSetRNNDescriptor_v8;
import static org.bytedeco.cuda.global.cudnn.cudnnSetTensorNdDescriptor;

import dev.starling.cuda.gpu.RawPointer;
import dev.starling.tensor.DType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.cuda.cudnn.cudnnContext;
import org.bytedeco.cuda.cudnn.cudnnDropoutStruct;
import org.bytedeco.cuda.cudnn.cudnnRNNDataStruct;
import org.bytedeco.cuda.cudnn.cudnnRNNStruct;
import org.bytedeco.cuda.cudnn.cudnnTensorStruct;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerPointer;
import org.bytedeco.javacpp.SizeTPointer;

/** What cuDNN made of a recurrent layer without gradients: its descriptors, and where it wants the weights. */
final class RecurrencePlan {
    private final cudnnContext handle;
    private final Recurrer.Call call;
    private final cudnnRNNStruct layer = new cudnnRNNStruct();
    private final cudnnRNNDataStruct x = new cudnnRNNDataStruct();
    private final cudnnRNNDataStruct y = new cudnnRNNDataStruct();
    private final cudnnTensorStruct state = new cudnnTensorStruct();
    private final long weightBytes;
    private final long workspaceBytes;
    /** Asked for when there is memory for the weights. */
    private List<Part> parts;

    /**
     * A piece of the weights, in bytes.
     *
     * @param operand 0 for the weight of the input, 1 for that of the state, 2 and 3 for their biases
     * @param from where in the operand it begins
     * @param to where the library wants it
     * @param bytes how much it is
     */
    record Part(int operand, long from, long to, long bytes) { }

    private RecurrencePlan(cudnnContext handle, Recurrer.Call call, boolean tf32) {
        this.handle = handle;
        this.call = call;
        layer(tf32);
        data(x, call.inputs());
        data(y, call.units());
        Descriptor.check(cudnnCreateTensorDescriptor(state), "cudnnCreateTensorDescriptor");
        Descriptor.check(cudnnSetTensorNdDescriptor(state, number(call.type()), 3,
                new int[] {1, call.batch(), call.units()}, new int[] {call.batch() * call.units(), call.units(), 1}),
                "cudnnSetTensorNdDescriptor");
        try (SizeTPointer size = new SizeTPointer(1); SizeTPointer kept = new SizeTPointer(1)) {
            Descriptor.check(cudnnGetRNNWeightSpaceSize(handle, layer, size), "cudnnGetRNNWeightSpaceSize");
            weightBytes = size.get();
            Descriptor.check(cudnnGetRNNTempSpaceSizes(handle, layer, CUDNN_FWD_MODE_INFERENCE, x, size, kept),
                    "cudnnGetRNNTempSpaceSizes");
            workspaceBytes = size.get();
        }
    }

    /** Makes a plan, or throws {@link dev.starling.cuda.gpu.GpuException} where the library refuses. */
    static RecurrencePlan of(cudnnContext handle, Recurrer.Call call, boolean tf32) {
        return new RecurrencePlan(handle, call, tf32);
    }

    private void layer(boolean tf32) {
        cudnnDropoutStruct none = new cudnnDropoutStruct();
        Descriptor.check(cudnnCreateDropoutDescriptor(none), "cudnnCreateDropoutDescriptor");
        Descriptor.check(cudnnSetDropoutDescriptor(none, handle, 0, null, 0, 0), "cudnnSetDropoutDescriptor");
        int mode = switch (call.cell()) {
            case TANH -> CUDNN_RNN_TANH;
            case RELU -> CUDNN_RNN_RELU;
            case GRU -> CUDNN_GRU;
            case LSTM -> CUDNN_LSTM;
        };
        int math = switch (call.type()) {
            case BF16, F16 -> CUDNN_TENSOR_OP_MATH;
            case F32 -> tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
            default -> CUDNN_DEFAULT_MATH;
        };
        Descriptor.check(cudnnCreateRNNDescriptor(layer), "cudnnCreateRNNDescriptor");
        Descriptor.check(cudnnSetRNNDescriptor_v8(layer, CUDNN_RNN_ALGO_STANDARD, mode,
                call.biased() ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
                number(call.type()), call.type() == DType.F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT, math,
                call.inputs(), call.units(), call.units(), 1, none, CUDNN_RNN_PADDED_IO_ENABLED),
                "cudnnSetRNNDescriptor_v8");
    }

    private void data(cudnnRNNDataStruct data, int width) {
        int[] lengths = new int[call.batch()];
        Arrays.fill(lengths, call.steps());
        Descriptor.check(cudnnCreateRNNDataDescriptor(data), "cudnnCreateRNNDataDescriptor");
        Descriptor.check(cudnnSetRNNDataDescriptor(data, number(call.type()), CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                call.steps(), call.batch(), width, lengths, null), "cudnnSetRNNDataDescriptor");
    }

    private static int number(DType type) {
        return switch (type) {
            case F64 -> CUDNN_DATA_DOUBLE;
            case BF16 -> CUDNN_DATA_BFLOAT16;
            case F16 -> CUDNN_DATA_HALF;
            default -> CUDNN_DATA_FLOAT;
        };
    }

    cudnnRNNStruct layer() {
        return layer;
    }

    cudnnRNNDataStruct x() {
        return x;
    }

    cudnnRNNDataStruct y() {
        return y;
    }

    cudnnTensorStruct state() {
        return state;
    }

    long weightBytes() {
        return weightBytes;
    }

    long workspaceBytes() {
        return workspaceBytes;
    }

    /** Returns what to copy to where; {@code space} is memory for the weights, wherever the next call's may be. */
    List<Part> parts(long space) {
        if (parts == null) {
            List<Part> all = new ArrayList<>();
            cudnnTensorStruct wide = new cudnnTensorStruct();
            cudnnTensorStruct narrow = new cudnnTensorStruct();
            Descriptor.check(cudnnCreateTensorDescriptor(wide), "cudnnCreateTensorDescriptor");
            Descriptor.check(cudnnCreateTensorDescriptor(narrow), "cudnnCreateTensorDescriptor");
            try (PointerPointer<Pointer> matrix = new PointerPointer<>(1);
                    PointerPointer<Pointer> bias = new PointerPointer<>(1)) {
                for (int k = 0; k < 2 * call.cell().gates(); k++) {
                    Descriptor.check(cudnnGetRNNWeightParams(handle, layer, 0, weightBytes, new RawPointer().to(space),
                            k, wide, matrix, narrow, bias), "cudnnGetRNNWeightParams");
                    add(all, k, matrix.get(0).address() - space, call.biased() ? bias.get(0).address() - space : -1);
                }
            }
            cudnnDestroyTensorDescriptor(wide);
            cudnnDestroyTensorDescriptor(narrow);
            parts = all;
        }
        return parts;
    }

    /** The library numbers the matrices of the input by gate, in the order of ours, then those of the state. */
    private void add(List<Part> all, int k, long matrix, long bias) {
        int gates = call.cell().gates();
        long bytes = (long) call.units() * call.type().bytes();
        long width = bytes * (k < gates ? call.inputs() : call.units());
        all.add(new Part(k / gates, k % gates * width, matrix, width));
        if (bias >= 0) {
            all.add(new Part(2 + k / gates, k % gates * bytes, bias, bytes));
        }
    }
}
