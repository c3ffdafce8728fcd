/** The command {@code ./starling stream}: a classifier that learns from one Kafka topic and scores another. */
package dev.starling.kafka.sample;
