package dev.starling.spark;

import dev.starling.tensor.Tensor;
import java.io.Serializable;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * A column that a model adds.
 *
 * @param column its name
 * @param kind its content
 */
public record Output(String column, Kind kind) implements Serializable {
    private static final long serialVersionUID = 1L;

    /** The content of a column, computed from a model's result {@code [N, C]}. */
    public enum Kind {
        /** The index of the largest number, as {@code int}. */
        CLASS,
        /** Softmax of the numbers, as {@code array<float>}. */
        PROBABILITY,
        /** The numbers as they are: logits, values, an embedding; as {@code array<float>}. */
        VALUES;

        /** Returns the type of the column. */
        DataType type() {
            return this == CLASS ? DataTypes.IntegerType : DataTypes.createArrayType(DataTypes.FloatType, false);
        }

        /** Returns a value for each row of a result {@code [N, C]}, as Spark's rows hold it. */
        Object[] of(Tensor result) {
            int rows = (int) result.size(0);
            Object[] values = new Object[rows];
            if (this == CLASS) {
                float[] places = result.argmax(1).to(dev.starling.tensor.DType.F32).toFloats();
                for (int i = 0; i < rows; i++) {
                    values[i] = (int) places[i];
                }
                return values;
            }
            float[] all = (this == PROBABILITY ? result.softmax(1) : result).contiguous().toFloats();
            int width = all.length / rows;
            for (int i = 0; i < rows; i++) {
                values[i] = UnsafeArrayData.fromPrimitiveArray(java.util.Arrays.copyOfRange(all, i * width,
                        (i + 1) * width));
            }
            return values;
        }
    }

    /** A column of the class with the largest number. */
    public static Output ofClass(String column) {
        return new Output(column, Kind.CLASS);
    }

    /** A column of the probabilities of all classes. */
    public static Output ofProbability(String column) {
        return new Output(column, Kind.PROBABILITY);
    }

    /** A column of the model's numbers. */
    public static Output ofValues(String column) {
        return new Output(column, Kind.VALUES);
    }
}
