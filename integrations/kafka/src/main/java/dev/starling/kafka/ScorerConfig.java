package dev.starling.kafka;

import java.time.Duration;

/** The settings of a {@link KafkaScorer}, copied from its builder, which explains them. */
final class ScorerConfig {
    final KafkaCluster cluster;
    final RowCodec codec;
    final String from;
    final String to;
    final String deadLetters;
    final ModelTopic model;
    final String group;
    final String instance;
    final int batch;
    final Duration latency;
    final String compression;

    ScorerConfig(KafkaScorer.Builder builder) {
        cluster = builder.cluster;
        codec = builder.codec;
        from = builder.from;
        to = builder.to;
        deadLetters = builder.deadLetters;
        model = builder.model;
        group = builder.group;
        instance = builder.instance;
        batch = builder.batch;
        latency = builder.latency;
        compression = builder.compression;
    }
}
