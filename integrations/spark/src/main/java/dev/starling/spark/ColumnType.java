package dev.starling.spark;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.UserDefinedType;

/** The types of columns that hold numbers for a model. */
enum ColumnType {
    BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE,
    /** Unsigned bytes, such as pixels. */
    BYTES,
    ARRAY_OF_BYTE, ARRAY_OF_SHORT, ARRAY_OF_INT, ARRAY_OF_LONG, ARRAY_OF_FLOAT, ARRAY_OF_DOUBLE,
    /** MLlib's dense or sparse vector. */
    VECTOR,
    /** The structure of Spark's image data source. */
    IMAGE,
    /** Bytes of a PNG, JPEG, GIF or BMP file, as Spark's source {@code binaryFile} reads them. */
    IMAGE_FILE;

    private static final String[] VECTOR_FIELDS = {"type", "size", "indices", "values"};
    private static final String[] IMAGE_FIELDS = {"origin", "height", "width", "nChannels", "mode", "data"};

    /** Returns whether a value is one number. */
    boolean isScalar() {
        return compareTo(DOUBLE) <= 0;
    }

    /** Returns whether a value is a whole number. */
    boolean isWhole() {
        return compareTo(LONG) <= 0;
    }

    /** Returns whether a value is an image, of any size. */
    boolean isImage() {
        return this == IMAGE || this == IMAGE_FILE;
    }

    /** Returns the type of a column, or {@code null} if it holds no numbers. */
    static ColumnType of(DataType type) {
        return switch (type) {
            case BooleanType _ -> BOOLEAN;
            case BinaryType _ -> BYTES;
            case StructType struct when java.util.Arrays.equals(struct.fieldNames(), IMAGE_FIELDS) -> IMAGE;
            case ArrayType array -> ofElements(of(array.elementType()));
            case UserDefinedType<?> user when user.sqlType() instanceof StructType struct
                    && java.util.Arrays.equals(struct.fieldNames(), VECTOR_FIELDS) -> VECTOR;
            case ByteType _ -> BYTE;
            case ShortType _ -> SHORT;
            case IntegerType _ -> INT;
            case LongType _ -> LONG;
            case FloatType _ -> FLOAT;
            case DoubleType _ -> DOUBLE;
            default -> null;
        };
    }

    private static ColumnType ofElements(ColumnType element) {
        return switch (element) {
            case BYTE -> ARRAY_OF_BYTE;
            case SHORT -> ARRAY_OF_SHORT;
            case INT -> ARRAY_OF_INT;
            case LONG -> ARRAY_OF_LONG;
            case FLOAT -> ARRAY_OF_FLOAT;
            case DOUBLE -> ARRAY_OF_DOUBLE;
            case null, default -> null;
        };
    }
}
