package dev.starling.spark.ml;

import java.io.Serializable;
import java.util.Arrays;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.param.Params;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The columns that the estimator and its model share. */
record ColumnParams(Param<String> featuresCol, Param<String> predictionCol, Param<String> probabilityCol,
        Param<String> valuesCol) implements Serializable {
    private static final long serialVersionUID = 1L;

    ColumnParams(Params of) {
        this(new Param<>(of, "featuresCol", "column of the model's input"),
                new Param<>(of, "predictionCol", "column of the class or the value"),
                new Param<>(of, "probabilityCol", "column of a vector of probabilities"),
                new Param<>(of, "valuesCol", "column of a vector of the model's numbers"));
    }

    StructType widen(StructType schema, Params of) {
        String features = of.getOrDefault(featuresCol);
        if (!Arrays.asList(schema.fieldNames()).contains(features)) {
            throw new IllegalArgumentException("there is no column \"" + features + "\"; the columns are "
                    + String.join(", ", schema.fieldNames()));
        }
        StructType wider = add(schema, of.getOrDefault(predictionCol), DataTypes.DoubleType);
        wider = add(wider, of.getOrDefault(probabilityCol), SQLDataTypes.VectorType());
        return add(wider, of.getOrDefault(valuesCol), SQLDataTypes.VectorType());
    }

    private static StructType add(StructType schema, String column, DataType type) {
        return column.isEmpty() ? schema : schema.add(column, type, false);
    }
}
