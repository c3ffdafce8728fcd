/** Search for hyper-parameters: trials that run in threads of one process or as tasks of Spark. */
package dev.starling.nn.search;
