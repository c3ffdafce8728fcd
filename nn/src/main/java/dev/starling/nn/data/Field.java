package dev.starling.nn.data;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import java.util.List;
import java.util.stream.Collectors;

/**
 * One of the tensors of an example, such as its input or its target.
 *
 * @param name by which a model of several inputs finds the field; empty if it has none
 * @param dtype element type
 * @param shape shape in one example; a batch has one more dimension in front
 */
public record Field(String name, DType dtype, Shape shape) {
    /** Creates a field without a name. */
    public Field(DType dtype, Shape shape) {
        this("", dtype, shape);
    }

    /** Creates a field without a name. A field without sizes has one element. */
    public static Field of(DType dtype, long... shape) {
        return new Field(dtype, Shape.of(shape));
    }

    /** Creates a field with a name. A field without sizes has one element. */
    public static Field of(String name, DType dtype, long... shape) {
        return new Field(name, dtype, Shape.of(shape));
    }

    /** Returns this field with another name. */
    public Field named(String newName) {
        return new Field(newName, dtype, shape);
    }

    /** Returns the size of the field in one example, in bytes. */
    public long bytes() {
        return shape.count() * dtype.bytes();
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
