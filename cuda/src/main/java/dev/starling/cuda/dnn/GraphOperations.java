package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_CONVOLUTION_COMP_TYPE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_CONVOLUTION_CONV_MODE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_CONVOLUTION_DILATIONS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_CONVOLUTION_POST_PADDINGS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_MATMUL_COMP_TYPE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_MATMUL_ADESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_MATMUL_BDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_MATMUL_CDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_MATMUL_DESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_POINTWISE_BDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_POINTWISE_TDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_POINTWISE_XDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_POINTWISE_YDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_REDUCTION_DESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_REDUCTION_XDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_REDUCTION_YDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_RESHAPE_XDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_OPERATION_RESHAPE_YDESC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_POINTWISE_AXIS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_POINTWISE_MATH_PREC;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_POINTWISE_MODE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_POINTWISE_NAN_PROPAGATION;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_REDUCTION_COMP_TYPE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_REDUCTION_OPERATOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_TENSOR_DATA_TYPE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_TENSOR_DIMENSIONS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_TENSOR_IS_BY_VALUE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_TENSOR_IS_VIRTUAL;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_TENSOR_STRIDES;
import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_TENSOR_UNIQUE_ID;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_MATMUL_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_POINTWISE_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_REDUCTION_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_TENSOR_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_CROSS_CORRELATION;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_ADD;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_BINARY_SELECT;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_CMP_GE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_CMP_LT;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_DIV;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_EXP;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_GEN_INDEX;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_IDENTITY;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_LOG;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_LOGICAL_AND;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_MUL;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_RELU_FWD;
import static org.bytedeco.cuda.global.cudnn.CUDNN_POINTWISE_SUB;
import static org.bytedeco.cuda.global.cudnn.CUDNN_PROPAGATE_NAN;
import static org.bytedeco.cuda.global.cudnn.CUDNN_REDUCE_TENSOR_ADD;
import static org.bytedeco.cuda.global.cudnn.CUDNN_REDUCE_TENSOR_MAX;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_CONVOLUTION_MODE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_NAN_PROPOGATION;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_POINTWISE_MODE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;

import dev.starling.cuda.dnn.Graph.Operand;
import dev.starling.cuda.dnn.Graph.Place;
import dev.starling.tensor.DType;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The descriptors of a {@link Graph}'s operands and operations. All operations compute in f32. */
final class GraphOperations {
    private static final long ALIGNMENT = 16;

    private final List<Descriptor> created;
    private final Descriptor[] operands;

    /** Creates the descriptors of a graph's operands; all created descriptors are added to a list. */
    GraphOperations(Graph graph, List<Descriptor> created) {
        this.created = created;
        operands = graph.operands().stream().map(this::describe).toArray(Descriptor[]::new);
    }

    /** Returns the library's number of an operand; these begin at 1. */
    static long id(Operand o) {
        return o.id() + 1L;
    }

    private Descriptor make(int type) {
        return Descriptor.make(created, type);
    }

    private Descriptor of(Operand o) {
        return operands[o.id()];
    }

    private Descriptor describe(Operand o) {
        return make(CUDNN_BACKEND_TENSOR_DESCRIPTOR).type(CUDNN_ATTR_TENSOR_DATA_TYPE, o.type())
                .longs(CUDNN_ATTR_TENSOR_DIMENSIONS, o.sizes())
                .longs(CUDNN_ATTR_TENSOR_STRIDES, o.strides())
                .longs(CUDNN_ATTR_TENSOR_UNIQUE_ID, id(o))
                .longs(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, ALIGNMENT)
                .flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL, o.place() == Place.VIRTUAL)
                .flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE, o.place() == Place.CONSTANT).finish("tensor");
    }

    Descriptor describe(Graph.Operation operation) {
        return switch (operation) {
            case Graph.Pointwise p -> pointwise(p);
            case Graph.Product p -> product(p);
            case Graph.Reduction(boolean max, Operand x, Operand y) ->
                make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
                    .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(x))
                    .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(y))
                    .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
                            .choice(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
                                    max ? CUDNN_REDUCE_TENSOR_MAX : CUDNN_REDUCE_TENSOR_ADD)
                            .type(CUDNN_ATTR_REDUCTION_COMP_TYPE, DType.F32).finish("reduction"))
                    .finish("reduction operation");
            case Graph.Transposition(Operand x, Operand y) -> make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
                    .set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(x))
                    .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(y)).finish("reshape operation");
            case Graph.Convolution c -> convolution(c);
        };
    }

    private Descriptor product(Graph.Product p) {
        Descriptor d = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
                .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(p.a()))
                .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(p.b()))
                .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(p.y()))
                .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, make(CUDNN_BACKEND_MATMUL_DESCRIPTOR)
                        .type(CUDNN_ATTR_MATMUL_COMP_TYPE, DType.F32).finish("matmul"));
        setIfAny(d, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, p.lengths().rows());
        setIfAny(d, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, p.lengths().columns());
        setIfAny(d, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, p.lengths().summands());
        return d.finish("matmul operation");
    }

    private void setIfAny(Descriptor d, int attribute, @Nullable Operand value) {
        if (value != null) {
            d.set(attribute, of(value));
        }
    }

    private Descriptor pointwise(Graph.Pointwise p) {
        Descriptor settings = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                .choice(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode(p.function()))
                .type(CUDNN_ATTR_POINTWISE_MATH_PREC, switch (p.y().type()) {
                    case BOOL -> DType.BOOL;
                    case I32 -> DType.I32;
                    default -> DType.F32;
                });
        if (p.function() == Graph.Function.RELU) {
            settings.choice(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, CUDNN_PROPAGATE_NAN);
        }
        if (p.axis() >= 0) {
            settings.longs(CUDNN_ATTR_POINTWISE_AXIS, p.axis());
        }
        Descriptor d = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
                .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, settings.finish("pointwise"))
                .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(p.x()));
        setIfAny(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, p.b());
        setIfAny(d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, p.t());
        return d.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(p.y())).finish("pointwise operation");
    }

    private static int mode(Graph.Function function) {
        return switch (function) {
            case ADD -> CUDNN_POINTWISE_ADD;
            case SUB -> CUDNN_POINTWISE_SUB;
            case MUL -> CUDNN_POINTWISE_MUL;
            case DIV -> CUDNN_POINTWISE_DIV;
            case EXP -> CUDNN_POINTWISE_EXP;
            case LOG -> CUDNN_POINTWISE_LOG;
            case RELU -> CUDNN_POINTWISE_RELU_FWD;
            case GREATER_EQUAL -> CUDNN_POINTWISE_CMP_GE;
            case LESS -> CUDNN_POINTWISE_CMP_LT;
            case AND -> CUDNN_POINTWISE_LOGICAL_AND;
            case SELECT -> CUDNN_POINTWISE_BINARY_SELECT;
            case INDEX -> CUDNN_POINTWISE_GEN_INDEX;
            case IDENTITY -> CUDNN_POINTWISE_IDENTITY;
        };
    }

    private Descriptor convolution(Graph.Convolution c) {
        Descriptor settings = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
                .type(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, DType.F32)
                .choice(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
                .longs(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, c.stride().length)
                .longs(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c.padding())
                .longs(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, c.padding())
                .longs(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c.stride())
                .longs(CUDNN_ATTR_CONVOLUTION_DILATIONS, c.dilation()).finish("convolution");
        return switch (c.pass()) {
            case FORWARD -> make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
                    .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, settings)
                    .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, of(c.x()))
                    .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, of(c.weight()))
                    .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, of(c.y()))
                    .number(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1)
                    .number(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0).finish("convolution forward");
            case INPUT_GRADIENT -> make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
                    .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, settings)
                    .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, of(c.x()))
                    .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, of(c.weight()))
                    .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, of(c.y()))
                    .number(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1)
                    .number(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0).finish("convolution's input gradient");
            case WEIGHT_GRADIENT -> make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
                    .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, settings)
                    .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, of(c.x()))
                    .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, of(c.weight()))
                    .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, of(c.y()))
                    .number(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1)
                    .number(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0)
                    .finish("convolution's weight gradient");
        };
    }
}
