package dev.starling.kafka;

import java.time.Duration;

/** Runs a scorer until it is killed; arguments: servers, topics of input, output, dead letters and models. */
public final class ScorerProcess {
    private ScorerProcess() {
    }

    public static void main(String[] arguments) {
        KafkaCluster cluster = KafkaCluster.at(arguments[0]).deadline(Duration.ofSeconds(20));
        try (KafkaScorer scorer = KafkaScorer.of(cluster, RowCodec.floats(SumModel.COLUMNS)).from(arguments[1])
                .to(arguments[2]).deadLetters(arguments[3]).model(ModelTopic.of(arguments[4], "sum"))
                .group("killed").instance("one").batch(1024, Duration.ofMillis(20)).open()) {
            scorer.run();
        }
    }
}
