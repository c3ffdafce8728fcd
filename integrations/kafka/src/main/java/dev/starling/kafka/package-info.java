/**
 * Scoring, training and gossip over Kafka topics: {@link dev.starling.kafka.KafkaScorer} and
 * {@link dev.starling.kafka.StreamScoring} score records, {@link dev.starling.kafka.KafkaLearner} trains on
 * records, {@link dev.starling.kafka.KafkaGossip} mixes the weights of sites that share a broker.
 */
package dev.starling.kafka;
