package dev.starling.tensor.conformance;

import static dev.starling.tensor.conformance.ConformanceCases.inAllTypes;
import static dev.starling.tensor.conformance.ConformanceCases.inLayouts;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Convolution.Geometry;
import dev.starling.tensor.op.Epilogue;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** Cases of {@link Convolution}: each geometry as the forward operation and as both gradients. */
final class ConvolutionCases {
    private static final Layout[] LAYOUTS = {Layout.CHANNELS_LAST, Layout.TRANSPOSED, Layout.STEPPED, Layout.REVERSED,
        Layout.REPEATED};

    private ConvolutionCases() {
    }

    static Stream<Case> all() {
        List<Case> cases = new ArrayList<>();
        // One dimension.
        add(cases, Geometry.of(1, 1, 0, 1, 1), shape(2, 3, 17), shape(4, 3, 3));
        add(cases, Geometry.of(1, 3, 2, 2, 1), shape(1, 2, 16), shape(5, 2, 4));
        add(cases, Geometry.of(1, 2, 1, 1, 2), shape(2, 4, 9), shape(6, 2, 3));
        // Two dimensions: pointwise, padded, strided, dilated, grouped, depthwise, larger than the input.
        add(cases, Geometry.of(2, 1, 0, 1, 1), shape(2, 17, 5, 5), shape(16, 17, 1, 1));
        add(cases, Geometry.of(2, 1, 1, 1, 1), shape(2, 3, 8, 7), shape(17, 3, 3, 3));
        add(cases, Geometry.of(2, 2, 0, 1, 1), shape(2, 4, 6, 6), shape(3, 4, 1, 1));
        add(cases, Geometry.of(2, 2, 3, 1, 1), shape(1, 3, 15, 14), shape(8, 3, 7, 7));
        add(cases, Geometry.of(2, 1, 2, 2, 1), shape(1, 2, 7, 8), shape(3, 2, 3, 3));
        add(cases, Geometry.of(2, 2, 1, 1, 4), shape(2, 8, 7, 7), shape(12, 2, 3, 3));
        add(cases, Geometry.of(2, 1, 1, 1, 6), shape(2, 6, 5, 5), shape(6, 1, 3, 3));
        add(cases, Geometry.of(2, 1, 2, 1, 1), shape(1, 2, 3, 3), shape(2, 2, 5, 5));
        add(cases, new Geometry(new int[] {1, 2}, new int[] {0, 1}, new int[] {2, 1}, 1), shape(1, 2, 9, 8),
                shape(3, 2, 3, 2));
        // A stride that leaves the last rows unread: their gradient is 0.
        add(cases, Geometry.of(2, 3, 0, 1, 1), shape(1, 2, 9, 10), shape(2, 2, 2, 2));
        add(cases, Geometry.of(2, 1, 1, 1, 1), shape(0, 3, 4, 4), shape(2, 3, 3, 3));
        // Three dimensions.
        add(cases, Geometry.of(3, 1, 1, 1, 1), shape(1, 2, 4, 5, 3), shape(3, 2, 3, 3, 3));
        add(cases, Geometry.of(3, 2, 0, 1, 2), shape(2, 4, 5, 4, 6), shape(4, 2, 2, 2, 2));
        layouts(cases);
        return cases.stream().flatMap(c -> inAllTypes(c));
    }

    private static void add(List<Case> cases, Geometry geometry, Shape x, Shape weight) {
        long perOutput = weight.slice(1, weight.rank()).count();
        Shape y = new Convolution.Conv(geometry, Epilogue.NONE).infer(spec(x), spec(weight))[0].shape();
        for (Epilogue epilogue : List.of(Epilogue.NONE, Epilogue.RELU)) {
            Convolution.Conv conv = new Convolution.Conv(geometry, epilogue);
            cases.add(Case.of(conv, Tolerance.sum(perOutput), of(x), of(weight)));
            cases.add(Case.of(conv, Tolerance.sum(perOutput), of(x), of(weight), of(Shape.of(weight.dim(0)))));
        }
        cases.add(Case.of(new Convolution.ConvInputGradient(geometry, x), Tolerance.sum(perOutput), of(y),
                of(weight)));
        for (boolean bias : new boolean[] {false, true}) {
            cases.add(Case.of(new Convolution.ConvWeightGradient(geometry, weight, bias),
                    Tolerance.sum(y.count() / Math.max(1, y.dim(1))), of(x), of(y)));
        }
    }

    private static void layouts(List<Case> cases) {
        Geometry geometry = Geometry.of(2, 1, 1, 1, 1);
        Shape x = Shape.of(2, 3, 6, 5);
        Shape weight = Shape.of(4, 3, 3, 3);
        Shape y = Shape.of(2, 4, 6, 5);
        inLayouts(Case.of(new Convolution.Conv(geometry, Epilogue.RELU), Tolerance.sum(27), of(x), of(weight),
                of(Shape.of(4))), LAYOUTS).forEach(cases::add);
        inLayouts(Case.of(new Convolution.ConvInputGradient(geometry, x), Tolerance.sum(36), of(y), of(weight)),
                LAYOUTS).forEach(cases::add);
        inLayouts(Case.of(new Convolution.ConvWeightGradient(geometry, weight, true), Tolerance.sum(60), of(x), of(y)),
                LAYOUTS).forEach(cases::add);
    }

    private static Shape shape(long... dims) {
        return Shape.of(dims);
    }

    private static Spec spec(Shape shape) {
        return new Spec(DType.F32, shape, Device.reference());
    }

    private static Operand of(Shape shape) {
        return Operand.of(DType.F32, Values.NORMAL, shape.dims());
    }
}
