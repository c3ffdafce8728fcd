package dev.starling.distributed.ps;

import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.worker.Agreement;
import dev.starling.nn.train.RunSettings;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Configuration of a worker. Immutable; a {@link ParameterServer.Builder} makes it.
 *
 * @param number of this worker, from 0
 * @param workers number of workers
 * @param servers number of servers
 * @param consistency how many steps workers may be apart
 * @param proportional whether batches are divided by measured speed
 * @param ownData whether each worker has rows of its own
 * @param optimizer the rule that servers apply, or {@code null} for that of the worker's optimiser
 * @param tables that are not layers of the model
 * @param checkInterval number of synchronous steps after which workers compare their weights; 0 for never
 */
record WorkerConfig(int number, int workers, int servers, Consistency consistency, boolean proportional,
        boolean ownData, @Nullable Rule optimizer, List<EmbeddingTable> tables, int checkInterval) {
    WorkerConfig {
        require(number >= 0 && number < workers && servers > 0, "0 <= number < workers and servers > 0 must hold, "
                + "got number " + number + ", " + workers + " workers and " + servers + " servers",
                "correct the builder's settings");
        require(!proportional || consistency instanceof Consistency.Synchronous, "proportional() divides batches "
                + "that all workers share, but with consistency " + consistency + " each worker has its own batches",
                "use Consistency.Synchronous, or omit proportional()");
        require(!proportional || !ownData, "proportional() divides batches by speed, but with ownData() each worker "
                + "trains on its own rows", "leave one of them out");
        require(!proportional || workers < Agreement.MAX_SUMMED, "proportional() needs workers < "
                + Agreement.MAX_SUMMED + ", got " + workers, "use fewer workers, or omit proportional()");
        require(checkInterval >= 0, "checkWeightsEvery >= 0 must hold, got " + checkInterval, "set 0 or more");
        tables = List.copyOf(tables);
    }

    /** Adds the settings of the strategy to those of the run. */
    RunSettings addTo(RunSettings settings) {
        return settings.with("strategy", "ps").with("workers", workers).with("servers", servers)
                .with("consistency", consistency).with("ownData()", ownData).with("proportional()", proportional)
                .with("rule of the servers", optimizer == null ? "that of the optimiser" : optimizer)
                .with("other tables", tables.stream().map(EmbeddingTable::name).toList())
                .with("checkWeightsEvery", checkInterval);
    }

    private static void require(boolean holds, String relation, String remedy) {
        if (!holds) {
            throw TensorException.argument("parameter server", relation, remedy);
        }
    }
}
