package dev.starling.tensor;

import org.jspecify.annotations.Nullable;

/**
 * The metadata of a tensor: type, shape and device.
 *
 * @param dtype the element type
 * @param shape the sizes
 * @param device the device that holds the elements
 */
public record Spec(DType dtype, Shape shape, Device device) {
    /** Returns this spec with another shape. */
    public Spec with(Shape other) {
        return other.equals(shape) ? this : other.spec(dtype, device);
    }

    /** Returns this spec with another element type. */
    public Spec with(DType other) {
        return other == dtype ? this : shape.spec(other, device);
    }

    /** Returns the size of the elements in bytes. */
    public long bytes() {
        return shape.count() * dtype.bytes();
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return this == other || other instanceof Spec s && dtype == s.dtype && shape.equals(s.shape)
                && device.equals(s.device);
    }

    @Override
    public int hashCode() {
        return 31 * (31 * dtype.hashCode() + shape.hashCode()) + device.hashCode();
    }

    /** Returns a text such as {@code f32[2, 3]@cpu}. */
    @Override
    public String toString() {
        return dtype + shape.toString() + "@" + device;
    }
}
