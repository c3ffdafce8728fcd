package dev.starling.kafka;

import dev.starling.nn.Layer;
import dev.starling.nn.optim.Optimizer;
import java.nio.file.Path;
import java.time.Duration;

/** Runs a learner until it is killed; arguments: servers, topic, checkpoints' directory, records between them. */
public final class LearnerProcess {
    private LearnerProcess() {
    }

    public static void main(String[] arguments) {
        KafkaCluster cluster = KafkaCluster.at(arguments[0]).deadline(Duration.ofSeconds(20));
        Layer model = CountingModel.create(2);
        Optimizer optimizer = CountingModel.optimizer(model);
        try (KafkaLearner learner = settings(cluster, arguments[1], Path.of(arguments[2]),
                Long.parseLong(arguments[3]), model, optimizer).open()) {
            learner.run();
        }
    }

    static LearnerSettings settings(KafkaCluster cluster, String topic, Path checkpoints, long every, Layer model,
            Optimizer optimizer) {
        return KafkaLearner.of(cluster, topic, RowCodec.floats(3)).model(model, CountingModel.LOSS, optimizer)
                .batch(32).holdOut(0, 1, 1).checkpoints(checkpoints).checkpointEvery(every, Duration.ofSeconds(2));
    }
}
