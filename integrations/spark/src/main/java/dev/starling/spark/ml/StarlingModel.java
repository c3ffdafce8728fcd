package dev.starling.spark.ml;

import dev.starling.spark.Output;
import dev.starling.spark.TrainedModel;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.ml.Model;
import org.apache.spark.ml.functions;
import org.apache.spark.ml.param.BooleanParam;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.ml.util.DefaultParamsReader;
import org.apache.spark.ml.util.DefaultParamsReader$;
import org.apache.spark.ml.util.DefaultParamsWriter$;
import org.apache.spark.ml.util.MLReader;
import org.apache.spark.ml.util.MLWritable;
import org.apache.spark.ml.util.MLWriter;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * A trained model as a stage of a pipeline. It is saved as Spark's parameters and one safetensors file with weights and
 * description; nothing is serialised by Java.
 */
public final class StarlingModel extends Model<StarlingModel> implements ColumnParams<StarlingModel>, MLWritable {
    private static final long serialVersionUID = 1L;
    private static final String FILE = "/model.safetensors";

    private final String uid;
    private final transient TrainedModel trained;
    private final Held columns;
    private final BooleanParam predictsClass;

    StarlingModel(String uid, TrainedModel trained, boolean isClass) {
        this.uid = uid;
        this.trained = trained;
        columns = Held.of(this);
        predictsClass = new BooleanParam(this, "predictsClass", "whether the prediction is a class");
        set(predictsClass, isClass);
    }

    @Override
    public String uid() {
        return uid;
    }

    @Override
    public Held held() {
        return columns;
    }

    /** Whether the prediction is a class. */
    public BooleanParam predictsClass() {
        return predictsClass;
    }

    /** Returns the model. */
    public TrainedModel trained() {
        return trained;
    }

    @Override
    public Dataset<Row> transform(Dataset<?> dataset) {
        boolean isClass = (boolean) getOrDefault(predictsClass);
        String prediction = getOrDefault(predictionCol());
        String probability = getOrDefault(probabilityCol());
        String values = getOrDefault(valuesCol());
        List<Output> outputs = new ArrayList<>();
        if (!prediction.isEmpty()) {
            outputs.add(isClass ? Output.ofClass(prediction) : Output.ofValues(prediction));
        }
        if (!probability.isEmpty()) {
            outputs.add(Output.ofProbability(probability));
        }
        if (!values.isEmpty()) {
            outputs.add(Output.ofValues(values));
        }
        Dataset<Row> scored = trained.transform(dataset.toDF(), List.of(getOrDefault(featuresCol())),
                outputs.toArray(Output[]::new));
        if (!prediction.isEmpty()) {
            Column result = exactly(scored, prediction);
            scored = scored.withColumn(prediction, (isClass ? result : result.getItem(0)).cast("double"));
        }
        for (String vector : List.of(probability, values)) {
            scored = vector.isEmpty() ? scored : scored.withColumn(vector, functions.array_to_vector(
                    exactly(scored, vector)));
        }
        return scored;
    }

    /** Returns the column of exactly this name, which may contain dots. */
    private static Column exactly(Dataset<Row> frame, String name) {
        return frame.col('`' + name.replace("`", "``") + '`');
    }

    @Override
    public StructType transformSchema(StructType schema) {
        return widen(schema);
    }

    @Override
    public StarlingModel copy(ParamMap extra) {
        return copyValues(new StarlingModel(uid, trained, (boolean) getOrDefault(predictsClass)), extra)
                .setParent(parent());
    }

    @Override
    public MLWriter write() {
        return new MLWriter() {
            @Override
            public void saveImpl(String path) {
                DefaultParamsWriter$.MODULE$.saveMetadata(StarlingModel.this, path, sparkSession(), Option.empty(),
                        Option.empty());
                trained.save(path + FILE, sc().hadoopConfiguration());
            }
        };
    }

    /** Returns a reader of saved models. */
    public static MLReader<StarlingModel> read() {
        return new MLReader<>() {
            @Override
            public StarlingModel load(String path) {
                DefaultParamsReader.Metadata metadata = DefaultParamsReader$.MODULE$.loadMetadata(path, sparkSession(),
                        StarlingModel.class.getName());
                StarlingModel model = new StarlingModel(metadata.uid(), TrainedModel.load(path + FILE,
                        sc().hadoopConfiguration()), true);
                metadata.getAndSetParams(model, Option.empty());
                return model;
            }
        };
    }
}
