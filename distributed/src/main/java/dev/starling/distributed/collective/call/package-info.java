/** What the engine passes to its algorithms: calls, tasks, transfers, memory that all ranks register, messages. */
package dev.starling.distributed.collective.call;
