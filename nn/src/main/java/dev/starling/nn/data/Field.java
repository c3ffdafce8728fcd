package dev.starling.nn.data;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.stream.Collectors;

/**
 * One of the tensors of an example, such as its input or its target.
 *
 * @param name by which a model of several inputs finds the field; empty if it has none
 * @param dtype element type
 * @param shape shape in one example; a batch has one more dimension in front. Of a field whose length varies, the first
 *     size is that of the longest example
 * @param length whether the first size varies from example to example
 * @param padding what fills the rows of a batch that are shorter than its longest
 */
public record Field(String name, DType dtype, Shape shape, Length length, double padding) {
    /** Whether all examples of a field have the same shape. */
    public enum Length {
        /** All examples have the same shape. */
        FIXED,
        /** The first size of an example is its {@link Dataset#length}. */
        PADDED,
        /** The loader writes true up to the {@link Dataset#length} of an example, and false beyond. */
        MASK
    }

    /** Creates a field without a name. */
    public Field(DType dtype, Shape shape) {
        this("", dtype, shape);
    }

    /** Creates a field whose examples have the same shape. */
    public Field(String name, DType dtype, Shape shape) {
        this(name, dtype, shape, Length.FIXED, 0);
    }

    /** Creates a field without a name. A field without sizes has one element. */
    public static Field of(DType dtype, long... shape) {
        return new Field(dtype, Shape.of(shape));
    }

    /** Creates a field with a name. A field without sizes has one element. */
    public static Field of(String name, DType dtype, long... shape) {
        return new Field(name, dtype, Shape.of(shape));
    }

    /**
     * Creates a field of examples of different lengths. Batches have the length of their longest example.
     *
     * @param dtype f32, f64, i32 or i64, or any type if {@code padding} is 0
     * @param padding what fills the rows of shorter examples; a number that the type has
     * @param shape shape of the longest example; its first size is the largest length
     */
    public static Field padded(String name, DType dtype, double padding, long... shape) {
        if (shape.length == 0) {
            throw TensorException.argument("field", name + " needs a dimension that varies, got none",
                    "give the largest length as its first size");
        }
        boolean exists = switch (dtype) {
            case F32, F64 -> true;
            case I32 -> padding == (int) padding;
            case I64 -> padding == (long) padding;
            case F16, BF16, I8, U8, BOOL -> {
                if (padding != 0) {
                    throw TensorException.argument("field", name + " is " + dtype + ", whose padding can only be 0, "
                            + "got " + padding, "use f32, f64, i32 or i64");
                }
                yield true;
            }
        };
        if (!exists) {
            throw TensorException.argument("field", name + " is " + dtype + ", which has no " + padding
                    + " for its padding", "use f32 or f64, or an integer in the range of the type");
        }
        return new Field(name, dtype, Shape.of(shape), Length.PADDED, padding);
    }

    /**
     * Creates the mask of the padded fields: bool {@code [length]}, true for elements of the example and false for
     * padding. The loader writes it.
     */
    public static Field mask(String name, long longest) {
        return new Field(name, DType.BOOL, Shape.of(longest), Length.MASK, 0);
    }

    /** Returns this field with another name. */
    public Field named(String newName) {
        return new Field(newName, dtype, shape, length, padding);
    }

    /** Returns the size of the field in one example, in bytes; of the longest if lengths vary. */
    public long bytes() {
        return shape.count() * dtype.bytes();
    }

    /** Returns the size of the field in one row of a batch of a length, in bytes. */
    long bytes(int batchLength) {
        return shape(batchLength).count() * dtype.bytes();
    }

    /** Returns the shape of one row of a batch of a length. */
    Shape shape(int batchLength) {
        return length == Length.FIXED ? shape : shape.with(0, batchLength);
    }

    /** Returns the position of the field with a name, or -1 if there is none. */
    static int position(List<Field> fields, String name) {
        for (int i = 0; i < fields.size(); i++) {
            if (fields.get(i).name.equals(name)) {
                return i;
            }
        }
        return -1;
    }

    /** Lists the names of fields for a message. */
    static String list(List<Field> fields) {
        return fields.stream().map(f -> f.name.isEmpty() ? "one without a name" : f.name)
                .collect(Collectors.joining(", ", "[", "]"));
    }
}
