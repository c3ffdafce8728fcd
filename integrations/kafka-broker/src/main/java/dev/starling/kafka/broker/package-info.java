/** A Kafka broker in the calling JVM, for tests and samples. */
package dev.starling.kafka.broker;
