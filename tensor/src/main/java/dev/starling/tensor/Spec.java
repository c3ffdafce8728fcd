package dev.starling.tensor;

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

    /** Returns a text such as {@code f32[2, 3]@cpu}. */
    @Override
    public String toString() {
        return dtype + shape.toString() + "@" + device;
    }
}
