"""ParallelSearch: the protocol, environment, reward, schemas, clients and command line that the services share."""
