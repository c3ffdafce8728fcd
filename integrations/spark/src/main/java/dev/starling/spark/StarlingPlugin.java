package dev.starling.spark;

import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/** A Spark plugin for {@code spark.plugins} that sets {@link ExecutorFlags} without code in the application. */
public final class StarlingPlugin implements SparkPlugin {
    /** Called by Spark. */
    public StarlingPlugin() {
    }

    @Override
    public DriverPlugin driverPlugin() {
        return new DriverPlugin() {
            @Override
            public Map<String, String> init(SparkContext context, PluginContext plugin) {
                // Runs before Spark requests executors, so that their command has the flags.
                ExecutorFlags.addTo(context.conf());
                return Map.of();
            }
        };
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return null;
    }
}
