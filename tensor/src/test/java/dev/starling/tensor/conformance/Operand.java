package dev.starling.tensor.conformance;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;
import java.util.SplittableRandom;

/**
 * A recipe for a tensor, the same on every device.
 *
 * @param dtype element type
 * @param shape sizes
 * @param layout memory layout
 * @param values source of the elements; {@code null} for indices
 * @param indices number of slices to index, for indices
 * @param literal the elements themselves, or {@code null}
 */
record Operand(DType dtype, Shape shape, Layout layout, Values values, long indices, double[] literal) {
    static Operand of(DType dtype, Values values, long... shape) {
        return new Operand(dtype, Shape.of(shape), Layout.DENSE, values, 0, null);
    }

    /** Returns indices from {@code -size} to {@code size - 1}. */
    static Operand indices(DType dtype, long size, long... shape) {
        return new Operand(dtype, Shape.of(shape), Layout.DENSE, null, size, null);
    }

    static Operand literal(DType dtype, double[] elements, long... shape) {
        return new Operand(dtype, Shape.of(shape), Layout.DENSE, null, 0, elements);
    }

    Operand with(Layout other) {
        return new Operand(dtype, shape, other, values, indices, literal);
    }

    Operand with(DType other) {
        return new Operand(other, shape, layout, values, indices, literal);
    }

    /** Makes the tensor; {@code seed} makes operands of one kind differ. */
    Tensor on(Device device, long seed) {
        Tensor elements = Device.with(Device.reference(), () -> elements(seed));
        Tensor base = Device.with(Device.reference(), () -> Tensor.full(dtype, 77, layout.base(shape).dims()));
        if (layout == Layout.REPEATED && shape.rank() > 0) {
            Tensor.apply(new Update.Assign(), base, elements.narrow(0, 0, base.size(0)));
        } else {
            Tensor.apply(new Update.Assign(), layout.view(base, shape), elements);
        }
        return layout.view(base.to(device), shape);
    }

    private Tensor elements(long seed) {
        SplittableRandom random = new SplittableRandom(seed * 31 + shape.hashCode());
        int n = Math.toIntExact(shape.count());
        if (dtype.isFloating() || literal != null) {
            double[] a = new double[n];
            for (int i = 0; i < n; i++) {
                a[i] = literal != null ? literal[i] : values.real(dtype, i, random);
            }
            return Tensor.of(a).reshape(shape);
        }
        long[] a = new long[n];
        for (int i = 0; i < n; i++) {
            a[i] = values != null ? values.integer(dtype, i, random) : random.nextLong(-indices, indices);
        }
        return Tensor.of(a).reshape(shape);
    }

    @Override
    public String toString() {
        return dtype + shape.toString() + (layout == Layout.DENSE ? "" : " " + layout) + (values == null
                || values == Values.NORMAL ? "" : " " + values);
    }
}
