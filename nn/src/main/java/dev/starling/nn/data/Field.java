package dev.starling.nn.data;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;

/**
 * One of the tensors of an example, such as its input or its target.
 *
 * @param dtype element type
 * @param shape shape in one example; a batch has one more dimension in front
 */
public record Field(DType dtype, Shape shape) {
    /** Creates a field. A field without sizes has one element. */
    public static Field of(DType dtype, long... shape) {
        return new Field(dtype, Shape.of(shape));
    }

    /** Returns the size of the field in one example, in bytes. */
    public long bytes() {
        return shape.count() * dtype.bytes();
    }
}
