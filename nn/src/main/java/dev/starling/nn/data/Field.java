package dev.starling.nn.data;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;

/**
 * One of the tensors that an example consists of: its input, its target.
 *
 * @param dtype element type
 * @param shape of one example; a batch has a dimension more in front
 */
public record Field(DType dtype, Shape shape) {
    /** Makes a field; no sizes mean one element. */
    public static Field of(DType dtype, long... shape) {
        return new Field(dtype, Shape.of(shape));
    }

    /** Returns the size of one example's part in bytes. */
    public long bytes() {
        return shape.count() * dtype.bytes();
    }
}
