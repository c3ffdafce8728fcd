package dev.starling.spark.ml;

import java.io.IOException;
import org.apache.spark.ml.PipelineModel;
import org.apache.spark.sql.SparkSession;

/** A separate driver that loads a pipeline's model and adds its columns. */
final class FreshJvm {
    private FreshJvm() {
    }

    /**
     * Runs it.
     *
     * @param arguments the saved model, Parquet to read, Parquet to write
     */
    public static void main(String[] arguments) throws IOException {
        try (SparkSession session = SparkSession.builder().master("local[2]").appName("fresh")
                .config("spark.ui.enabled", false).config("spark.driver.host", "127.0.0.1").getOrCreate()) {
            PipelineModel.load(arguments[0]).transform(session.read().parquet(arguments[1])).write()
                    .parquet(arguments[2]);
        }
    }
}
