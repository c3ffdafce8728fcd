/** Groups of processes, their ranks and collectives: what strategies of distributed training are made of. */
package dev.starling.distributed;
