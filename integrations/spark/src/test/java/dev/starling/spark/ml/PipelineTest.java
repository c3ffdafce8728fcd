package dev.starling.spark.ml;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.spark.Perceptron;
import dev.starling.spark.SharedSession;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.spark.ml.Pipeline;
import org.apache.spark.ml.PipelineModel;
import org.apache.spark.ml.PipelineStage;
import org.apache.spark.ml.feature.VectorAssembler;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** Starling as a stage of Spark ML's pipelines. */
@Timeout(240)
@ExtendWith(SharedSession.class)
class PipelineTest {
    @Test
    void shouldTrainSaveLoadAndTransform(@TempDir Path directory) throws Exception {
        Dataset<Row> points = SharedSession.points(200, 800).drop("point");
        StarlingEstimator starling = new StarlingEstimator().setModel(Perceptron.class.getName(),
                Map.of("sizes", "2,16,2")).setEpochs(4).setBatchSize(16).setRate(0.02);
        starling.set(starling.probabilityCol(), "probability");
        Pipeline pipeline = new Pipeline().setStages(new PipelineStage[] {new VectorAssembler()
                .setInputCols(new String[] {"x", "y"}).setOutputCol("features"), starling});
        String saved = directory.resolve("pipeline").toUri().toString();
        pipeline.write().save(saved);
        PipelineModel model = Pipeline.load(saved).fit(points);
        List<Row> before = model.transform(points).orderBy("id").collectAsList();
        assertThat(before.stream().mapToDouble(r -> r.<Integer>getAs("label") == r.<Double>getAs("prediction")
                .intValue() ? 1 : 0).average().orElse(0)).isGreaterThan(0.9);
        String trained = directory.resolve("model").toUri().toString();
        model.write().save(trained);
        assertThat(PipelineModel.load(trained).transform(points).orderBy("id").collectAsList()).isEqualTo(before);
    }
}
