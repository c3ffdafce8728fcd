package dev.starling.kafka;

import dev.starling.kafka.broker.EmbeddedBroker;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.config.ConfigResource;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/** One broker for all test classes of the JVM, closed after the last; each test creates its own topics. */
final class Broker implements ParameterResolver {
    private static final AtomicInteger TOPICS = new AtomicInteger();

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == EmbeddedBroker.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return context.getRoot().getStore(ExtensionContext.Namespace.GLOBAL)
                .getOrComputeIfAbsent(EmbeddedBroker.class, key -> EmbeddedBroker.start(), EmbeddedBroker.class);
    }

    /** Returns the broker's cluster. Clients do not wait long for records: a consumer closes after its last fetch. */
    static KafkaCluster cluster(EmbeddedBroker broker) {
        return KafkaCluster.at(broker.servers()).deadline(Duration.ofSeconds(20)).with("fetch.max.wait.ms", "20");
    }

    /** Creates a topic that no other test uses. */
    static String topic(EmbeddedBroker broker, String kind, int partitions) {
        String name = kind + "-" + TOPICS.incrementAndGet();
        broker.topics(Map.of(name, partitions));
        return name;
    }

    /** Makes the broker refuse larger records of a topic. */
    static void limit(EmbeddedBroker broker, String topic, int bytes) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker.servers()))) {
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic),
                    List.of(new AlterConfigOp(new ConfigEntry("max.message.bytes", Integer.toString(bytes)),
                            AlterConfigOp.OpType.SET)))).all().get(20, TimeUnit.SECONDS);
        }
    }
}
