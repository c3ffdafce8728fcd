package dev.starling.spark;

import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/** Sets {@link ExecutorFlags} where it is named in {@code spark.plugins}: no code of the application has to. */
public final class StarlingPlugin implements SparkPlugin {
    /** Is made by Spark. */
    public StarlingPlugin() {
    }

    @Override
    public DriverPlugin driverPlugin() {
        return new DriverPlugin() {
            @Override
            public Map<String, String> init(SparkContext context, PluginContext plugin) {
                // Before executors are asked for, so that their command has the flags.
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
